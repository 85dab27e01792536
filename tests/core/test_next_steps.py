"""Every way in which a source needs a decision says what to do next, as a command that works (T38)."""

from __future__ import annotations

import shlex

import pytest

from databricks_bridge.cli.parser import parser
from databricks_bridge.core.claims import LONGEST_PROBLEM, refused, settled_again
from databricks_bridge.core.errors import HistoryGap, SourceError, TableRecreated, TableReplaced
from databricks_bridge.core.pending import TableFinding, first_watermark, settle
from databricks_bridge.core.record import Record, record_from_json
from tests.core.builders import FLIGHTS, NOW, at, spec_of

CASES = {
    "another table id": (TableFinding(at(9, "t2"), 9, NOW), TableRecreated, "on_recreated"),
    "another commit at the mark": (TableFinding(at(9), 9, NOW, "other"), TableRecreated, "on_recreated"),
    "another metadata id": (TableFinding(at(9, "t1", "m2"), 9, NOW), TableReplaced, "on_replaced"),
    "behind the mark": (TableFinding(at(2), 2, NOW), HistoryGap, "on_history_gap"),
    "a gap": (TableFinding(at(9), 9, NOW, gap="commit 6 is not in the log"), HistoryGap, "on_history_gap"),
    "no commit at all": (TableFinding(None, None, None), HistoryGap, "on_history_gap"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_error_names_the_commands_and_the_argument(case: str) -> None:
    finding, kind, argument = CASES[case]
    with pytest.raises(kind) as raised:
        settle(spec_of(FLIGHTS), {"flights": at(5)}, "0", {"flights": finding})
    said = str(raised.value)
    assert 'databricks-bridge watermark adopt delays flights earliest --why "..."' in said
    newest = finding.position.version if finding.position else None
    assert (f'databricks-bridge watermark adopt delays flights {newest} --why "..."' in said) == (newest is not None)
    assert f'{argument}="full_rebuild" or "adopt"' in said
    assert len(said) < LONGEST_PROBLEM


def test_the_command_is_one_that_the_command_line_knows() -> None:
    words = shlex.split('watermark adopt delays flights earliest --why "..."')
    options = parser().parse_args(words)
    assert (options.subscription, options.source, options.position) == ("delays", "flights", "earliest")


def test_a_start_that_is_not_there_yet_names_what_to_give() -> None:
    from dataclasses import replace

    source = replace(FLIGHTS, start=9)
    with pytest.raises(
        HistoryGap, match=r"starts after version 9, but the table is at 5; give it a start= of at most that"
    ):
        first_watermark(spec_of(source), source, TableFinding(at(5), 5, NOW))


def test_the_record_says_it_once_and_whatever_is_written_next_clears_it() -> None:
    record = Record("delays", "c", {"flights": at(5)})
    told = refused(record, TableReplaced("replaced; adopt it"), NOW)
    assert told is not None
    assert told.problem == "TableReplaced: replaced; adopt it"
    assert told.history[-1].what == "waits for a decision: TableReplaced: replaced; adopt it"
    assert record_from_json(told.to_json()) == told
    assert refused(told, TableReplaced("replaced; adopt it"), NOW) is None
    again = settled_again(told, NOW)
    assert again is not None
    assert again.problem == ""
    assert settled_again(again, NOW) is None
    assert told.after(NOW, "claimed").problem == ""


def test_a_long_problem_does_not_fill_the_record() -> None:
    told = refused(Record("delays", "c", {}), SourceError("x" * 100_000), NOW)
    assert told is not None
    assert len(told.problem) == LONGEST_PROBLEM
    assert len(told.history[-1].what) < 300
