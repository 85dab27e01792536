"""The sources of a subscription change: one is added, removed, comes back, or has another alias."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databricks_bridge.core import acts, repair
from databricks_bridge.core.errors import HistoryGap, InvalidArgument
from databricks_bridge.core.pending import Finding, RunsFinding, TableFinding
from databricks_bridge.core.positions import RunsPosition, TablePosition
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Record
from databricks_bridge.core.sources import DeltaTable, Source, TriggeredRuns
from tests.core.builders import FLIGHTS, NOW, TARGET, WEATHER, at, plan_of, spec_of
from tests.core.driving import Script, claimed_record

WHY = Reason("ada", "the table has another name")
BOTH = {"flights": TableFinding(at(5), 5, NOW), "weather": TableFinding(at(9), 9, NOW)}
ONE = Record("delays", TARGET.consumer, {"flights": at(3)}, last_claimed_at=NOW, revision=4)
TWO = replace(ONE, watermarks={"flights": at(3), "weather": at(7)})


def bounds(record: Record) -> dict[str, tuple[int, int]]:
    """(from, to] of each source of the claim."""
    assert record.claim is not None
    found = {}
    for one in record.claim.ranges:
        assert isinstance(one.from_, TablePosition)
        assert isinstance(one.to, TablePosition)
        found[one.alias] = (one.from_.version, one.to.version)
    return found


def claimed(record: Record, *sources: Source, findings: dict[str, Finding] | None = None) -> Record:
    """The claim that the next process of these sources writes, after whatever it has to write before."""
    script = Script(plan_of(*sources)).read(record).look(dict(BOTH if findings is None else findings))
    written = script.written()
    if written.claim is None:
        written = script.read(written).look(dict(BOTH if findings is None else findings)).written()
    return written


@pytest.mark.parametrize(
    ("weather", "from_"),
    [
        (WEATHER, -1),
        (replace(WEATHER, start="earliest"), -1),
        (replace(WEATHER, start=4), 4),
        (replace(WEATHER, start="latest"), 9),
    ],
    ids=["the subscription's start", "earliest", "a version", "latest"],
)
def test_a_source_that_is_added_begins_at_its_start_and_the_others_go_on(weather: DeltaTable, from_: int) -> None:
    assert bounds(claimed(ONE, FLIGHTS, weather)) == {"flights": (3, 5), "weather": (from_, 9)}


def test_a_source_that_is_added_without_any_start_is_refused_at_parse() -> None:
    with pytest.raises(InvalidArgument, match=r"it has no default\. Without it: weather"):
        spec_of(replace(FLIGHTS, start="earliest"), WEATHER, start=None)


def test_a_source_that_is_removed_keeps_its_mark_and_is_in_no_claim() -> None:
    record = claimed(TWO, FLIGHTS)
    assert bounds(record) == {"flights": (3, 5)}
    assert record.watermarks["weather"] == at(7)


def test_a_source_that_comes_back_goes_on_from_its_old_mark_whatever_its_start_says() -> None:
    without = replace(claimed(TWO, FLIGHTS), claim=None)
    assert bounds(claimed(without, FLIGHTS, replace(WEATHER, start="latest")))["weather"] == (7, 9)


def test_a_source_that_comes_back_after_its_log_was_cut_is_a_history_gap() -> None:
    behind: dict[str, Finding] = {**BOTH, "weather": TableFinding(at(6), 6, NOW)}
    script = Script(plan_of(FLIGHTS, WEATHER)).read(TWO).look(behind)
    with pytest.raises(HistoryGap, match="behind the watermark 7"):
        raise script.fails(HistoryGap)


def test_an_open_claim_keeps_the_sources_that_it_was_written_with() -> None:
    record = claimed_record(plan_of(FLIGHTS, WEATHER), dict(BOTH))
    script = Script(plan_of(FLIGHTS)).read(record)
    script.look({"flights": BOTH["flights"]})
    started = script.asks(acts.StartRun)
    assert {one.alias for one in started.claim.ranges} == {"flights", "weather"}


def test_another_alias_is_another_source_unless_its_mark_is_carried_over() -> None:
    late = replace(FLIGHTS, alias="late")
    findings: dict[str, Finding] = {"late": BOTH["flights"]}
    assert bounds(claimed(ONE, late, findings=findings)) == {"late": (-1, 5)}, "from its start"
    carried = repair.carried(ONE, "late", "flights", WHY, NOW, "e1")
    again = claimed(carried, late, findings=findings)
    assert bounds(again) == {"late": (3, 5)}
    assert again.epoch == "e1"


def test_an_alias_that_names_another_kind_of_source_is_a_history_gap() -> None:
    runs: dict[str, Finding] = {"flights": RunsFinding(RunsPosition(1000), (7,), NOW)}
    script = Script(plan_of(TriggeredRuns(job_id=1, alias="flights"))).read(ONE).look(runs)
    with pytest.raises(HistoryGap, match=r"another kind of source.*give another alias="):
        raise script.fails(HistoryGap)
