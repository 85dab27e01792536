"""The shipped slice: small, well-formed, and shaped as the story needs it."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from demo import gold, waves

Record = dict[str, Any]


def records(file: Path) -> list[Record]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def wave(workspace: str, number: int) -> list[Record]:
    return list(chain.from_iterable(records(file) for file in waves.files(workspace, number)))


def test_slice_is_small() -> None:
    assert sum(file.stat().st_size for file in waves.DATA.rglob("*.json")) < 600_000


@pytest.mark.parametrize(("workspace", "key"), [("ops", gold.FLIGHT_KEY), ("met", gold.WEATHER_KEY)])
def test_every_record_has_its_key_and_revision_once(workspace: str, key: str) -> None:
    found = [(record[key], record["revision"]) for number in (1, 2, 3) for record in wave(workspace, number)]
    assert len(found) == len(set(found))
    keys = {name for name, _ in found}
    for name in keys:
        revisions = sorted(revision for other, revision in found if other == name)
        assert revisions == list(range(1, len(revisions) + 1))


@pytest.mark.parametrize("workspace", ["ops", "met"])
def test_file_names_are_unique_in_the_landing_folder(workspace: str) -> None:
    names = [file.name for file in waves.files(workspace)]
    assert len(names) == len(set(names)) > 0


def test_flights_first_land_without_their_arrival() -> None:
    first = wave("ops", 1)
    assert first
    assert {record["revision"] for record in first} == {1}
    assert not any("arr_delay" in record or "arr_time" in record for record in first)


def test_later_waves_bring_corrections_of_earlier_ones() -> None:
    earlier = {record[gold.FLIGHT_KEY] for record in wave("ops", 1)}
    corrections = [record for record in wave("ops", 2) if record["revision"] == 2]
    assert {record[gold.FLIGHT_KEY] for record in corrections} <= earlier
    assert len(corrections) > 100
    assert any(record["revision"] == 2 for record in wave("met", 2))


def test_last_wave_has_late_records_and_several_revisions_of_one_key() -> None:
    last = wave("ops", 3)
    keys = [record[gold.FLIGHT_KEY] for record in last]
    assert len(keys) > len(set(keys))
    assert any(record["revision"] == 3 for record in last)
    late = [record for record in last if record["revision"] == 1 and record["sched_dep_time"] < 1200]
    assert late


def test_whole_numbers_are_whole() -> None:
    for number in (1, 2, 3):
        for record in wave("ops", number):
            for name in ("flight", "sched_dep_time", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"):
                assert isinstance(record.get(name, 0), int)


def test_origin_and_licence_are_noted() -> None:
    note = (waves.DATA / "README.md").read_text()
    assert "CC0" in note
    assert "Bureau of Transportation Statistics" in note
