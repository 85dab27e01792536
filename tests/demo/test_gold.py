"""Gold as plain pandas computes it, on records small enough to do by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demo import gold, waves
from demo.places import DemoFailed

TEN, ELEVEN = "2013-01-16T10:00:00Z", "2013-01-16T11:00:00Z"


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def flight(key: str, hour: str, revision: int, **measured: int) -> dict[str, Any]:
    return {"flight_id": key, "origin": "EWR", "time_hour": hour, "revision": revision, **measured}


def test_highest_revision_counts_in_whatever_file_it_is(tmp_path: Path) -> None:
    corrected = write(tmp_path / "a.json", flight("one", TEN, 2, dep_delay=5, arr_delay=-3))
    first = write(
        tmp_path / "b.json",
        flight("one", TEN, 1, dep_delay=5),
        flight("two", TEN, 1),
        flight("three", ELEVEN, 1, dep_delay=7),
    )
    observed = {"weather_id": "EWR-10", "origin": "EWR", "time_hour": TEN, "visib": 4.0, "wind_speed": 5.75}
    weather = write(tmp_path / "w.json", {**observed, "revision": 1}, {**observed, "precip": 0.25, "revision": 2})
    assert gold.expected([corrected, first], [weather]) == {
        ("EWR", TEN): (2, 1, 1, 5, -3, 5.75, 4.0, 0.25),
        ("EWR", ELEVEN): (1, 1, 0, 7, 0, None, None, None),
    }


@pytest.mark.parametrize("line", ["no JSON", "[1]", '{"revision": 1}', '{"flight_id": "one"}'])
def test_what_is_no_record_is_named(line: str, tmp_path: Path) -> None:
    file = write(tmp_path / "mine.json", flight("one", TEN, 1))
    file.write_text(file.read_text() + line)
    with pytest.raises(DemoFailed, match=r"mine\.json, line 2: no JSON record with flight_id"):
        gold.newest([file], gold.FLIGHT_KEY)


def test_differences_name_the_hour_and_both_sides() -> None:
    found = {("EWR", TEN): (1,), ("EWR", ELEVEN): (2,)}
    wanted = {("EWR", TEN): (1,), ("JFK", TEN): (3,)}
    assert gold.differences(found, wanted) == [
        f"EWR {ELEVEN}: gold has (2,), computed from the raw records it is no row",
        f"JFK {TEN}: gold has no row, computed from the raw records it is (3,)",
    ]


def test_whole_slice_counts_every_flight_once() -> None:
    rows = gold.expected(waves.files("ops"), waves.files("met"))
    assert sum(int(row[0] or 0) for row in rows.values()) == 901
    assert sum(int(row[1] or 0) for row in rows.values()) == 855


def test_actual_reads_the_delta_table_as_expected_is_written(tmp_path: Path) -> None:
    import pandas as pd
    from deltalake import write_deltalake

    frame = pd.DataFrame(
        {
            "origin": ["EWR"],
            "time_hour": pd.to_datetime([TEN]),
            "flights": [2],
            "departed": [1],
            "arrived": [1],
            "dep_delay_minutes": [5],
            "arr_delay_minutes": [-3],
            "wind_speed": [5.75],
            "visib": [4.0],
            "precip": [0.25],
        }
    )
    write_deltalake(tmp_path / "gold", frame)
    assert gold.actual(tmp_path / "gold") == {("EWR", TEN): (2, 1, 1, 5, -3, 5.75, 4.0, 0.25)}
    assert gold.latest_version(tmp_path / "gold") == 0
