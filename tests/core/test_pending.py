from __future__ import annotations

from dataclasses import replace

import pytest

from databricks_bridge.core.errors import HistoryGap, InvalidArgument, SourceError, TableRecreated, TableReplaced
from databricks_bridge.core.pending import (
    Finding,
    RunsFinding,
    TableFinding,
    changes_of,
    identity_changes,
    passed_over,
    ranges_of,
    settle,
    starts_somewhere,
)
from databricks_bridge.core.policy import Choices
from databricks_bridge.core.positions import BEFORE_FIRST, Position, Range, RunsPosition, TablePosition
from databricks_bridge.core.sources import DeltaTable, TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec
from tests.core.builders import FLIGHTS, NOW, WEATHER, at, only_found, seconds, spec_of

EMPTY = TableFinding(None, None, None)
BRONZE = TriggeredRuns(job_name="bronze", alias="bronze")
FLIGHTS_ONLY = spec_of(FLIGHTS)


def found(version: int, data_version: int | None = -2, **ids: str | None) -> TableFinding:
    return TableFinding(at(version, **ids), version if data_version == -2 else data_version, NOW)


def to_of(spec: SubscriptionSpec, mark: Position, finding: Finding) -> Position:
    findings = {spec.sources[0].alias: finding}
    (one,) = ranges_of(spec, known_watermarks(spec, {spec.sources[0].alias: mark}, findings), findings)
    assert one.from_ == mark
    return one.to


def known_watermarks(
    spec: SubscriptionSpec, marks: dict[str, Position], findings: dict[str, Finding]
) -> dict[str, Position]:
    """The settled watermarks, where nothing had to be decided."""
    settled = settle(spec, marks, "0", findings)
    assert (settled.epoch, settled.notes) == ("0", ())
    return settled.watermarks


def choosing(**choices: str) -> SubscriptionSpec:
    return replace(FLIGHTS_ONLY, choices=Choices(**choices))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choice", "finding"),
    [
        ("on_recreated", TableFinding(TablePosition(9, "t2", "m2"), 9, NOW)),
        ("on_replaced", TableFinding(TablePosition(9, "t1", "m2"), 9, NOW)),
        ("on_history_gap", TableFinding(TablePosition(2, "t1", "m1"), 2, NOW)),
    ],
)
def test_each_change_of_a_source_has_its_own_choice(choice: str, finding: TableFinding) -> None:
    """adopt goes on from what is there, full_rebuild from before the first version, both in a new epoch with a note."""
    marks = {"flights": at(3)}
    adopted = settle(choosing(**{choice: "adopt"}), marks, "0", {"flights": finding})
    rebuilt = settle(choosing(**{choice: "full_rebuild"}), marks, "0", {"flights": finding})
    assert finding.position is not None
    assert adopted.watermarks == {"flights": replace(finding.position, found=True)}
    assert rebuilt.watermarks == {"flights": TablePosition(BEFORE_FIRST)}
    assert adopted.epoch == rebuilt.epoch != "0"
    assert adopted.notes[0].startswith("adopt: main.silver.flights")
    assert rebuilt.notes[0].startswith("full_rebuild: main.silver.flights")
    others = {"on_recreated": "adopt", "on_replaced": "adopt", "on_history_gap": "adopt"} | {choice: "fail"}
    with pytest.raises(SourceError):
        settle(choosing(**others), marks, "0", {"flights": finding})


def test_racers_who_saw_other_versions_of_the_new_table_come_to_one_epoch() -> None:
    spec, marks = choosing(on_recreated="full_rebuild"), {"flights": at(3)}
    first, second = (
        settle(spec, marks, "0", {"flights": TableFinding(TablePosition(v, "t2", "m2"), v, NOW)}) for v in (0, 4)
    )
    assert (first.epoch, first.watermarks) == (second.epoch, second.watermarks)


def test_a_second_recreation_is_another_epoch() -> None:
    spec = choosing(on_recreated="adopt")
    first = settle(spec, {"flights": at(3)}, "0", {"flights": TableFinding(TablePosition(4, "t2", "m2"), 4, NOW)})
    again = settle(spec, first.watermarks, first.epoch, {"flights": TableFinding(TablePosition(4, "t3", "m3"), 4, NOW)})
    assert len({"0", first.epoch, again.epoch}) == 3


def test_an_unknown_choice_is_refused_at_parse() -> None:
    with pytest.raises(InvalidArgument, match="on_replaced is 'skip'; use one of fail, full_rebuild, adopt"):
        choosing(on_replaced="skip")


def test_the_range_goes_to_the_newest_version() -> None:
    (one,) = ranges_of(FLIGHTS_ONLY, {"flights": at(3)}, {"flights": found(7)})
    assert (one.from_, one.to, one.name) == (at(3), at(7), "ops_share.silver.flights")


def test_commits_without_data_at_the_end_are_taken_along() -> None:
    """OPTIMIZE after the last data: not new by itself, yet inside the range when there is data."""
    assert to_of(FLIGHTS_ONLY, at(3), found(7, data_version=5)) == at(7)


@pytest.mark.parametrize("data_version", [None, 3, 2])
def test_commits_without_data_alone_are_nothing_new(data_version: int | None) -> None:
    assert to_of(FLIGHTS_ONLY, at(3), found(7, data_version=data_version)) == at(3)


def test_commits_without_data_are_passed_over_and_the_token_does_not_move() -> None:
    passed = passed_over(FLIGHTS_ONLY, {"flights": at(3)}, {"flights": found(7, data_version=None)}, NOW)
    assert passed.watermarks == {"flights": replace(at(3), through=7, fingerprint="f7")}
    assert passed.watermarks["flights"].identity() == at(3).identity()
    assert passed.notes == ("committed without a run: ops_share.silver.flights (3, 7], no data in it",)


def test_what_was_passed_over_is_not_read_again() -> None:
    mark = replace(at(3), through=7, fingerprint="f7")
    assert to_of(FLIGHTS_ONLY, mark, found(7, data_version=None)) == mark
    (one,) = ranges_of(FLIGHTS_ONLY, {"flights": mark}, {"flights": found(9)})
    assert (str(one), one.empty) == ("ops_share.silver.flights (7, 9]", False)
    assert passed_over(FLIGHTS_ONLY, {"flights": mark}, {"flights": found(7, None)}, NOW).notes == ()


def test_a_cap_counts_from_what_was_passed_over() -> None:
    spec = replace(FLIGHTS_ONLY, max_commits_per_run=2)
    assert to_of(spec, replace(at(3), through=7), found(12)) == replace(at(9), fingerprint=None)


@pytest.mark.parametrize(
    ("mark", "finding"),
    [
        (at(3), found(7, data_version=6)),
        (at(3), found(3, data_version=None)),
        (at(BEFORE_FIRST), found(7, data_version=None)),
        (at(3), EMPTY),
    ],
)
def test_nothing_is_passed_over_where_there_is_data_or_nothing_or_no_start(
    mark: TablePosition, finding: TableFinding
) -> None:
    assert passed_over(FLIGHTS_ONLY, {"flights": mark}, {"flights": finding}, NOW).watermarks == {"flights": mark}


@pytest.mark.parametrize(("version", "age", "due"), [(4, 3600, False), (4, 86400, True), (12, 0, False), (13, 0, True)])
def test_what_was_passed_over_is_due_when_it_is_old_or_much(version: int, age: int, due: bool) -> None:
    finding = replace(found(version, None), changed_at=seconds(-age))
    assert bool(passed_over(FLIGHTS_ONLY, {"flights": at(3)}, {"flights": finding}, NOW).due) is due


def test_changes_that_cannot_be_read_any_more_are_a_gap_with_its_choice() -> None:
    finding = replace(found(9), gap="commit 4 is not in the log")
    with pytest.raises(HistoryGap, match="after version 3 cannot be read: commit 4 is not in the log"):
        to_of(FLIGHTS_ONLY, at(3), finding)
    adopted = settle(choosing(on_history_gap="adopt"), {"flights": at(3)}, "0", {"flights": finding})
    assert adopted.watermarks == {"flights": replace(at(9), found=True)}
    assert "cannot be read: commit 4 is not in the log" in adopted.notes[0]


def test_a_recreated_table_is_never_new_versions() -> None:
    with pytest.raises(TableRecreated, match="table id t2, the watermark at version 3 knows t1"):
        to_of(FLIGHTS_ONLY, at(3), found(9, table_id="t2"))


def test_a_recreated_table_is_told_before_its_lower_version() -> None:
    with pytest.raises(TableRecreated):
        to_of(FLIGHTS_ONLY, at(3), found(0, table_id="t2"))


def test_a_replaced_table_is_told_from_a_recreated_one() -> None:
    with pytest.raises(TableReplaced, match="metadata id m2"):
        to_of(FLIGHTS_ONLY, at(3), found(9, metadata_id="m2"))


@pytest.mark.parametrize(
    ("mark", "now"), [(at(3, None, None), found(5)), (at(3), found(5, table_id=None, metadata_id=None))]
)
def test_an_identity_that_is_not_known_refuses_nothing(mark: TablePosition, now: TableFinding) -> None:
    assert to_of(FLIGHTS_ONLY, mark, now) == now.position


def test_a_table_behind_its_watermark_is_a_gap() -> None:
    with pytest.raises(HistoryGap, match="at version 2, behind the watermark 3"):
        to_of(FLIGHTS_ONLY, at(3), found(2))


def test_a_log_that_is_empty_now_is_a_gap_where_something_was_processed() -> None:
    with pytest.raises(HistoryGap, match="has no commit now, but version 3"):
        to_of(FLIGHTS_ONLY, at(3), EMPTY)


def test_a_table_without_a_commit_has_nothing_new() -> None:
    assert to_of(FLIGHTS_ONLY, TablePosition(BEFORE_FIRST), EMPTY) == TablePosition(BEFORE_FIRST)


@pytest.mark.parametrize(
    ("start", "finding", "mark"),
    [
        ("latest", found(7), only_found(7)),
        ("latest", EMPTY, TablePosition(BEFORE_FIRST, found=True)),
        ("earliest", found(7), TablePosition(BEFORE_FIRST)),
        ("earliest", EMPTY, TablePosition(BEFORE_FIRST)),
        (0, found(7), TablePosition(0, "t1", "m1")),
        (7, found(7), TablePosition(7, "t1", "m1")),
    ],
)
def test_a_first_start(start: str | int, finding: TableFinding, mark: TablePosition) -> None:
    spec = SubscriptionSpec("s", (DeltaTable("a.b.t", start=start),), None, FLIGHTS_ONLY.policy)  # type: ignore[arg-type]
    assert known_watermarks(spec, {}, {"t": finding}) == {"t": mark}


@pytest.mark.parametrize("finding", [found(6), EMPTY])
def test_a_start_beyond_the_table_is_refused(finding: TableFinding) -> None:
    spec = SubscriptionSpec("s", (DeltaTable("a.b.t", start=7),), None, FLIGHTS_ONLY.policy)
    with pytest.raises(HistoryGap, match="starts after version 7"):
        known_watermarks(spec, {}, {"t": finding})


def test_a_source_added_later_starts_at_its_start_and_the_others_stay() -> None:
    spec = spec_of(FLIGHTS, WEATHER, start="latest")
    findings = {"flights": found(9), "weather": found(4, table_id="t2")}
    assert known_watermarks(spec, {"flights": at(3)}, findings) == {"flights": at(3), "weather": only_found(4, "t2")}


def test_the_mark_of_a_source_that_was_removed_is_kept() -> None:
    before = {"flights": at(3), "weather": at(4)}
    assert known_watermarks(FLIGHTS_ONLY, before, {"flights": found(9)}) == before


def test_a_source_with_nothing_new_has_an_empty_range_in_its_place() -> None:
    spec = spec_of(WEATHER, FLIGHTS)
    marks = {"flights": at(3), "weather": at(4)}
    ranges = ranges_of(spec, marks, {"flights": found(9), "weather": found(4)})
    assert [(one.alias, one.empty) for one in ranges] == [("weather", True), ("flights", False)]
    changes = changes_of(ranges, {"flights": TableFinding(at(9), 9, seconds(5)), "weather": found(4)}, NOW)
    assert changes == {"weather": None, "flights": seconds(5)}


def test_a_change_without_a_time_counts_from_now() -> None:
    ranges = ranges_of(FLIGHTS_ONLY, {"flights": at(3)}, {"flights": TableFinding(at(9), 9, None)})
    assert changes_of(ranges, {"flights": TableFinding(at(9), 9, None)}, seconds(3)) == {"flights": seconds(3)}


def test_runs_that_count_move_the_position_past_all_that_ended() -> None:
    spec = spec_of(BRONZE)
    position = RunsPosition(50, frozenset({1, 2, 3}))
    (one,) = ranges_of(spec, {"bronze": RunsPosition(0)}, {"bronze": RunsFinding(position, (3, 1), NOW)})
    assert (one.to, one.runs, one.empty) == (position, (3, 1), False)


def test_runs_that_do_not_count_hold_nothing_and_move_nothing() -> None:
    spec = spec_of(BRONZE)
    finding = RunsFinding(RunsPosition(50, frozenset({1})), (), None)
    (one,) = ranges_of(spec, {"bronze": RunsPosition(0)}, {"bronze": finding})
    assert one.empty


def test_runs_start_at_latest_after_all_that_ended_or_at_the_very_first() -> None:
    finding = RunsFinding(RunsPosition(50, frozenset({1})), (1,), NOW)
    assert known_watermarks(spec_of(BRONZE, start="latest"), {}, {"bronze": finding}) == {
        "bronze": replace(finding.position, found=True)
    }
    assert known_watermarks(spec_of(BRONZE, start="earliest"), {}, {"bronze": finding}) == {"bronze": RunsPosition(0)}


def test_a_source_that_became_another_kind_is_refused() -> None:
    with pytest.raises(HistoryGap, match="another kind of source"):
        to_of(FLIGHTS_ONLY, RunsPosition(0), found(3))
    with pytest.raises(HistoryGap, match="another kind of source"):
        to_of(spec_of(BRONZE), at(3), RunsFinding(RunsPosition(9), (1,), NOW))


CAPPED = replace(FLIGHTS_ONLY, max_commits_per_run=2)


@pytest.mark.parametrize(
    ("mark", "newest", "to"),
    [
        (at(3), 4, at(4)),
        (at(3), 5, at(5)),
        (at(3), 6, TablePosition(5, "t1", "m1")),
        (at(3), 99, TablePosition(5, "t1", "m1")),
        (at(0), 3, TablePosition(2, "t1", "m1")),
        (TablePosition(BEFORE_FIRST), 99, at(99)),
    ],
)
def test_a_cap_ends_the_range_early_but_for_the_whole_table(
    mark: TablePosition, newest: int, to: TablePosition
) -> None:
    assert to_of(CAPPED, mark, found(newest)) == to


def test_a_backlog_is_taken_in_ranges_that_join() -> None:
    mark: Position = at(0)
    bounds = []
    for _ in range(4):
        mark = to_of(CAPPED, mark, found(7))
        assert isinstance(mark, TablePosition)
        bounds.append(mark.version)
    assert bounds == [2, 4, 6, 7]


def test_a_cap_is_for_tables() -> None:
    position = RunsPosition(50, frozenset({1, 2, 3}))
    spec = replace(spec_of(BRONZE), max_commits_per_run=1)
    assert to_of(spec, RunsPosition(0), RunsFinding(position, (3, 1, 2), NOW)) == position


@pytest.mark.parametrize(
    ("mark", "somewhere"),
    [
        (at(5), True),
        (TablePosition(0), True),
        (TablePosition(BEFORE_FIRST), False),
        (RunsPosition(0), False),
        (RunsPosition(0, frozenset({1})), True),
        (RunsPosition(5), True),
    ],
)
def test_only_a_first_watermark_that_depends_on_the_look_starts_somewhere(mark: Position, somewhere: bool) -> None:
    assert starts_somewhere({}, {"new": mark}) is somewhere
    assert not starts_somewhere({"new": mark}, {"new": mark})
    assert starts_somewhere({"old": at(1)}, {"old": at(1), "new": mark}) is somewhere


def test_each_table_that_is_another_now_is_named() -> None:
    ranges = (
        Range("flights", "a.b.flights", at(3), at(5)),
        Range("weather", "a.b.weather", at(1), at(1)),
        Range("bronze", "bronze", RunsPosition(0), RunsPosition(9), (1,)),
        Range("gone", "a.b.gone", at(1), at(2)),
    )
    findings: dict[str, Finding] = {
        "flights": found(9, table_id="t2"),
        "weather": found(0),
        "bronze": RunsFinding(RunsPosition(0), (), None),
    }
    assert identity_changes(ranges, findings) == (
        "a.b.flights is another table now, or was cut; a.b.weather is another table now, or was cut"
    )
    assert identity_changes(ranges, findings | {"flights": found(5), "weather": found(1)}) == ""
    unknown = Range("flights", "a.b.flights", TablePosition(BEFORE_FIRST), TablePosition(5))
    assert identity_changes([unknown], {"flights": found(9, table_id="t2")}) == ""


def test_another_commit_under_the_watermark_s_own_version_is_another_table() -> None:
    """A table made again in the same place without a catalog to tell: higher versions, no ids, other bytes."""
    finding = replace(found(9, table_id=None, metadata_id=None), known_fingerprint="other")
    with pytest.raises(TableRecreated, match=r"commit 3 of main\.silver\.flights is another one"):
        known_watermarks(FLIGHTS_ONLY, {"flights": at(3, None, None)}, {"flights": finding})


@pytest.mark.parametrize("known_fingerprint", [None, "f3"])
def test_the_same_commit_or_one_that_was_not_read_is_no_other_table(known_fingerprint: str | None) -> None:
    finding = replace(found(9), known_fingerprint=known_fingerprint)
    assert to_of(FLIGHTS_ONLY, at(3), finding) == at(9)
