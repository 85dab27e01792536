"""Gold twice: as the table has it, and computed once from every raw record by plain pandas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.places import DemoFailed

if TYPE_CHECKING:
    import pandas as pd

Hour = tuple[str, str]  # airport, hour in UTC as in the records: "2013-01-16T10:00:00Z"
Row = tuple[int | float | None, ...]
MEASURES = ("flights", "departed", "arrived", "dep_delay_minutes", "arr_delay_minutes", "wind_speed", "visib", "precip")
FLIGHT_KEY, WEATHER_KEY = "flight_id", "weather_id"


def expected(flight_files: Iterable[Path], weather_files: Iterable[Path]) -> dict[Hour, Row]:
    """What gold must be. All figures are whole sums and counts, or an observation as it came: equal means equal."""
    hour = ["origin", "time_hour"]
    # Named columns, because what no record knows yet is no column: arrivals, before the first correction has landed.
    flights = newest(flight_files, FLIGHT_KEY).reindex(columns=[FLIGHT_KEY, *hour, "dep_delay", "arr_delay"])
    weather = newest(weather_files, WEATHER_KEY).reindex(columns=[*hour, "wind_speed", "visib", "precip"])
    by_hour = flights.groupby(hour).agg(
        flights=(FLIGHT_KEY, "size"),
        departed=("dep_delay", "count"),
        arrived=("arr_delay", "count"),
        dep_delay_minutes=("dep_delay", "sum"),
        arr_delay_minutes=("arr_delay", "sum"),
    )
    gold = by_hour.join(weather.set_index(hour))
    return {
        (str(origin), str(time_hour)): tuple(_number(value) for value in values)
        for (origin, time_hour), *values in gold[list(MEASURES)].itertuples(name=None)
    }


def newest(files: Iterable[Path], key: str) -> pd.DataFrame:
    """One row for each key: its highest revision. Raises DemoFailed for what is no record."""
    import pandas as pd

    records = [record for file in files for record in _records(file, key)]
    return pd.DataFrame(records).sort_values("revision").drop_duplicates(key, keep="last")


def _records(file: Path, key: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        try:
            record = json.loads(line)
            complete = isinstance(record, dict) and key in record and isinstance(record.get("revision"), int)
        except ValueError:
            complete = False
        if not complete:
            raise DemoFailed(
                f"{file.name}, line {number}: no JSON record with {key} and a whole revision, so what gold must be cannot be computed"
            )
        yield record


def actual(table: Path) -> dict[Hour, Row]:
    """What the Delta table holds now."""
    from deltalake import DeltaTable

    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    found = {
        (row["origin"], row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ")): tuple(row[name] for name in MEASURES)
        for row in rows
    }
    if len(found) != len(rows):
        raise ValueError(f"gold has {len(rows)} rows for {len(found)} hours")
    return found


def latest_version(table: Path) -> int:
    """The newest version in the table's log."""
    from deltalake import DeltaTable

    return int(DeltaTable(table).version())


def revisions(table: Path) -> tuple[int, int]:
    """(keys, sum of their revisions) of a silver table: tells how much of the landed records has come through."""
    from deltalake import DeltaTable

    column = DeltaTable(table).to_pyarrow_table(columns=["revision"])["revision"].to_pylist()
    return len(column), sum(column)


def differences(found: dict[Hour, Row], wanted: dict[Hour, Row]) -> list[str]:
    """One line for each hour that is not as it should be."""
    return [
        f"{origin} {hour}: gold has {found.get((origin, hour), 'no row')}, "
        f"computed from the raw records it is {wanted.get((origin, hour), 'no row')}"
        for origin, hour in sorted(found.keys() | wanted.keys())
        if found.get((origin, hour)) != wanted.get((origin, hour))
    ]


def _number(value: Any) -> int | float | None:
    if value != value:  # pandas' not-a-number
        return None
    return int(value) if float(value).is_integer() else float(value)
