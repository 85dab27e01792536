"""Which state a backfill reads: its range says what was touched, and old state is never written over newer results (T50)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from databricks_bridge.core.backfill import Asking, Backfill, Reading, ranges_of, reading_of
from databricks_bridge.core.claims import Plan, after_failure, claimed
from databricks_bridge.core.errors import HistoryGap, InvalidArgument
from databricks_bridge.core.parameter_names import check_own, declarable_names, names_of
from databricks_bridge.core.pending import Settled, TableFinding
from databricks_bridge.core.positions import Range, TablePosition
from databricks_bridge.core.record import Record
from tests.core.builders import FLIGHTS, NOW, TARGET, WEATHER, at, spec_of

BOTH = (FLIGHTS, WEATHER)
ASKING = Asking("delays", "manual__1", "build_gold", -1)
FINDINGS = {"flights": TableFinding(at(9), 9, NOW), "weather": TableFinding(at(4, "t2"), 4, NOW)}


def reading(
    range_: tuple[int, int],
    record: Record | None = None,
    before: dict[str, str] | None = None,
    flights: TableFinding = FINDINGS["flights"],
) -> Reading:
    seen = FINDINGS | {"flights": flights}
    ranges = ranges_of({"flights": range_, "weather": (2, 2)}, BOTH, seen)
    return reading_of(ranges, seen, record, before or {})


def told(flights: tuple[int, int], record: Record | None = None) -> dict[str, str]:
    bounds = {"flights": flights, "weather": (2, 2)}
    ranges = ranges_of(bounds, BOTH, FINDINGS)
    backfill = Backfill("delays", TARGET, bounds, ASKING)
    return dict(backfill.claim(0, ranges, {}, NOW, reading_of(ranges, FINDINGS, record, {})).parameters)


def record_at(flights: TablePosition) -> Record:
    return Record("delays", TARGET.consumer, {"flights": flights})


def test_an_old_range_is_read_as_of_the_newest_version() -> None:
    given = told((3, 6))
    assert (given["flights_start"], given["flights_end"], given["flights_as_of"]) == ("4", "6", "9")
    assert (given["weather_start"], given["weather_end"], given["weather_as_of"]) == ("3", "2", "4")


@pytest.mark.parametrize(
    ("range_", "rebuilt"),
    [((-1, 1), []), ((-1, 8), []), ((-1, 9), ["flights"]), ((0, 9), []), ((3, 6), [])],
)
def test_a_table_is_rebuilt_only_where_the_range_leaves_nothing_out(
    range_: tuple[int, int], rebuilt: list[str]
) -> None:
    assert json.loads(told(range_)["bridge_full_rebuild"]) == rebuilt


def test_maintenance_after_the_newest_data_leaves_nothing_out() -> None:
    assert "flights" in reading((-1, 7), flights=TableFinding(at(9), 7, NOW)).whole
    assert "flights" not in reading((-1, 6), flights=TableFinding(at(9), 7, NOW)).whole


def test_never_older_than_the_watermark_where_the_reader_lags() -> None:
    lagging = TableFinding(at(9), 9, NOW, reader_version=5)
    assert reading((3, 4), flights=lagging).as_of["flights"] == 5
    assert reading((3, 6), flights=lagging).as_of["flights"] == 6
    assert reading((3, 4), record_at(at(8)), flights=lagging).as_of["flights"] == 8
    assert reading((3, 4), record_at(replace(at(7), through=8)), flights=lagging).as_of["flights"] == 8


def test_never_older_than_an_open_claim() -> None:
    lagging = TableFinding(at(9), 9, NOW, reader_version=5)
    spec = spec_of()
    settled = Settled({"flights": at(3)}, "0")
    record = claimed(Plan(spec, TARGET, {}), None, settled, (Range("flights", "f", at(3), at(8)),), NOW)
    assert reading((3, 4), record, flights=lagging).as_of["flights"] == 8


def test_a_table_that_is_behind_what_was_processed_is_refused() -> None:
    with pytest.raises(HistoryGap, match=r"is at version 9, but the subscription has processed it up to 12"):
        reading((3, 6), record_at(at(12)))


def test_a_watermark_of_another_table_says_nothing() -> None:
    assert reading((3, 6), record_at(at(12, "another"))).as_of["flights"] == 9


def test_a_reader_that_was_behind_is_given_the_same_state_again() -> None:
    """The newest version of each try would run ahead of it for ever."""
    assert reading((3, 6), before={"flights_as_of": "8", "weather_as_of": "4"}).as_of["flights"] == 8
    assert reading((3, 6), record_at(at(9)), before={"flights_as_of": "8"}).as_of["flights"] == 9
    assert reading((3, 6), before={"flights_as_of": ""}).as_of["flights"] == 9


def claim_parameters(as_of: frozenset[str]) -> list[dict[str, str]]:
    """Of a claim, and of its next generation after a failure."""
    spec = spec_of(*BOTH)
    plan = Plan(spec, TARGET, {"region": "NY"}, as_of=as_of)
    ranges = (Range("flights", "f", at(3), at(6)), Range("weather", "w", at(2, "t2"), at(2, "t2")))
    record = claimed(plan, None, Settled({"flights": at(3), "weather": at(2, "t2")}, "0"), ranges, NOW)
    again = after_failure(Plan(spec, TARGET, {"region": "NY"}), record, NOW)
    return [dict(one.claim.parameters) for one in (record, again) if one.claim]


def test_a_claim_reads_as_of_its_end_in_every_generation() -> None:
    for given in claim_parameters(frozenset({"flights", "weather"})):
        assert (given["flights_end"], given["flights_as_of"]) == ("6", "6")
        assert (given["weather_end"], given["weather_as_of"]) == ("2", "2")
        assert given["region"] == "NY"


def test_a_job_that_does_not_declare_it_is_not_sent_it() -> None:
    for given in claim_parameters(frozenset({"weather"})):
        assert "flights_as_of" not in given
        assert given["weather_as_of"] == "2"


def test_the_name_belongs_to_the_claim_whether_it_is_sent_or_not() -> None:
    assert "flights_as_of" not in names_of(BOTH, ())
    assert declarable_names(BOTH, ()) - names_of(BOTH, ()) == {"flights_as_of", "weather_as_of"}
    with pytest.raises(InvalidArgument, match="'flights_as_of', which the claim itself sets"):
        check_own({"flights_as_of": "1"}, BOTH)
