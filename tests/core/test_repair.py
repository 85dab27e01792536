"""What a person may do to a record: forward, back, adopt, resolve, move; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from databricks_bridge.core import repair
from databricks_bridge.core.errors import ClaimError, InvalidArgument
from databricks_bridge.core.positions import BEFORE_FIRST, Range, RunsPosition, TablePosition, covers
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Claim, ClaimStatus, Record, token_of
from databricks_bridge.core.repair import Verdict
from tests.core.builders import NOW, TARGET, at, records, seconds

WHY = Reason("ada", "the gold table was restored")
RECORD = Record("delays", "consumer", {"flights": at(5), "by_file": RunsPosition(1000, frozenset({7}))}, revision=9)
RANGE = Range("flights", "main.silver.flights", at(5), at(8))
CLAIM = Claim((RANGE,), "t" * 64, 0, TARGET, (), NOW, run_id=11, status=ClaimStatus.UNDECIDED)
CLAIMED = replace(RECORD, claim=CLAIM)
MOVES: dict[str, Callable[..., Record]] = {
    "rewind": repair.rewound,
    "set": repair.set_forward,
    "adopt": repair.adopted,
}


def moved(word: str, alias: str, to: Any, record: Record = RECORD) -> Record:
    return MOVES[word](record, alias, to, WHY, seconds(1), "e1")


@pytest.mark.parametrize(
    ("word", "alias", "to", "mark"),
    [
        ("rewind", "flights", TablePosition(2), TablePosition(2, "t1", "m1")),
        ("rewind", "flights", TablePosition(BEFORE_FIRST), TablePosition(BEFORE_FIRST)),
        ("rewind", "by_file", RunsPosition(400), RunsPosition(400)),
        ("set", "flights", TablePosition(7), TablePosition(7, "t1", "m1")),
        ("set", "by_file", RunsPosition(2000), RunsPosition(2000)),
        ("adopt", "flights", TablePosition(0, "t2", "m2"), TablePosition(0, "t2", "m2")),
        ("adopt", "flights", TablePosition(6), TablePosition(6)),
    ],
)
def test_a_mark_is_moved_in_a_new_epoch_and_the_history_says_who_and_why(
    word: str, alias: str, to: Any, mark: Any
) -> None:
    after = moved(word, alias, to)
    assert after.watermarks == {**RECORD.watermarks, alias: mark}
    assert (after.epoch, after.revision) == ("e1", RECORD.revision + 1)
    assert alias in after.history[-1].what
    assert after.history[-1].what.endswith("by ada: the gold table was restored")
    assert after.history[-1].at == seconds(1)


def test_runs_that_are_still_open_stay_so_when_a_mark_is_rewound_and_are_skipped_when_it_is_set_forward() -> None:
    mark = RunsPosition(1000, frozenset({7}), late=frozenset({(100, 1), (400, 2), (700, 3)}))
    record = replace(RECORD, watermarks={"by_file": mark})
    back = moved("rewind", "by_file", RunsPosition(400), record)
    assert back.watermarks == {"by_file": RunsPosition(400, late=frozenset({(100, 1)}))}
    assert "from runs from 1000 ms on, 1 done, 3 before that still open" in back.history[-1].what
    assert moved("set", "by_file", RunsPosition(2000), record).watermarks == {"by_file": RunsPosition(2000)}


@pytest.mark.parametrize(
    ("word", "to"),
    [
        ("rewind", TablePosition(5)),
        ("rewind", TablePosition(6)),
        ("rewind", RunsPosition(1)),
        ("set", TablePosition(5)),
        ("set", TablePosition(4)),
        ("set", RunsPosition(9999)),
        ("adopt", RunsPosition(1)),
    ],
)
def test_the_wrong_direction_or_kind_is_refused(word: str, to: Any) -> None:
    with pytest.raises(InvalidArgument, match="flights is at version 5"):
        moved(word, "flights", to)


@pytest.mark.parametrize("word", MOVES)
def test_an_unknown_source_is_refused_naming_those_there_are(word: str) -> None:
    with pytest.raises(InvalidArgument, match="no source 'weather'; it has by_file, flights"):
        moved(word, "weather", TablePosition(1))


@pytest.mark.parametrize("word", MOVES)
@pytest.mark.parametrize("status", ClaimStatus)
def test_nothing_moves_while_a_claim_is_open(word: str, status: ClaimStatus) -> None:
    record = replace(RECORD, claim=replace(CLAIM, status=status))
    with pytest.raises(ClaimError, match="claim resolve"):
        moved(word, "flights", TablePosition(1), record)
    with pytest.raises(ClaimError):
        repair.carried(record, "flights_2", "flights", WHY, NOW, "e1")


@pytest.mark.parametrize(("by", "why"), [("", "x"), ("ada", ""), (" ", "x"), ("ada", "  ")])
def test_who_and_why_are_needed(by: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=r"--by and --why"):
        Reason(by, why)


def test_succeeded_commits_the_ranges() -> None:
    after = repair.resolved(CLAIMED, Verdict.SUCCEEDED, WHY, NOW, "e1")
    assert after.claim is None
    assert after.watermarks["flights"] == at(8)
    assert after.epoch == RECORD.epoch, "its token can answer for nothing that is still pending"
    assert "(run 11, undecided) as succeeded by ada" in after.history[-1].what


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.VOID])
def test_failed_and_void_make_the_ranges_pending_again_under_another_token(verdict: Verdict) -> None:
    after = repair.resolved(CLAIMED, verdict, WHY, NOW, "e1")
    assert after.claim is None
    assert after.watermarks == RECORD.watermarks
    from_ = {"flights": at(5)}
    old = token_of("delays", TARGET, CLAIMED.epoch, from_, 0)
    assert token_of("delays", TARGET, after.epoch, from_, 0) != old


def test_without_a_claim_there_is_nothing_to_resolve() -> None:
    with pytest.raises(ClaimError, match="no open claim"):
        repair.resolved(RECORD, Verdict.VOID, WHY, NOW, "e1")


@pytest.mark.parametrize("started", [{}, {"flights_2": at(9)}], ids=["not started", "started by itself"])
def test_a_mark_is_carried_over_to_another_alias(started: dict[str, Any]) -> None:
    record = replace(RECORD, watermarks={**RECORD.watermarks, **started})
    after = repair.carried(record, "flights_2", "flights", WHY, NOW, "e1")
    assert after.watermarks == {"by_file": RECORD.watermarks["by_file"], "flights_2": at(5)}
    assert after.epoch == "e1"
    was = ", was version 9" if started else ""
    assert after.history[-1].what == (
        f"carried the mark of flights, version 5, over to flights_2{was} by ada: the gold table was restored"
    )


@pytest.mark.parametrize(("alias", "of"), [("flights", "flights"), ("", "flights"), ("x", "weather")])
def test_what_cannot_be_carried_over(alias: str, of: str) -> None:
    with pytest.raises(InvalidArgument):
        repair.carried(RECORD, alias, of, WHY, NOW, "e1")


def test_a_set_skips_what_held_no_data_as_well() -> None:
    passed = replace(RECORD, watermarks={"flights": replace(at(5), through=9)})
    with pytest.raises(InvalidArgument, match="not ahead"):
        moved("set", "flights", TablePosition(8), passed)
    assert moved("set", "flights", TablePosition(10), passed).watermarks["flights"] == TablePosition(10, "t1", "m1")


@given(record=records)
def test_a_verdict_never_moves_a_mark_back(record: Record) -> None:
    if record.claim is None:
        return
    for verdict in Verdict:
        after = repair.resolved(record, verdict, WHY, NOW, "e1")
        for alias, mark in record.watermarks.items():
            now = after.watermarks[alias]
            assert type(now) is not type(mark) or covers(now, mark)


def test_blocked_and_undecided_claims_need_a_person() -> None:
    assert repair.needs_a_person(CLAIM)
    assert not repair.needs_a_person(replace(CLAIM, status=ClaimStatus.OPEN))
    assert not repair.needs_a_person(None)
