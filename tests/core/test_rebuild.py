"""A lost record from runs: their order, what joins, what does not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from databricks_bridge.core.errors import ClaimError, LedgerLost
from databricks_bridge.core.parameters import render
from databricks_bridge.core.positions import Range, RunsPosition, TablePosition
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.rebuild import Rebuilt, Witness, command, rebuild, record_of, stated, witnessed
from tests.core.builders import NOW, TARGET, at

WHY = Reason("ada", "the bucket was emptied")


def flights(from_: int, to: int, table_id: str = "t1") -> Range:
    return Range("flights", "main.silver.flights", at(from_, table_id), at(to, table_id))


def weather(from_: int, to: int) -> Range:
    return Range("weather", "main.silver.weather", at(from_), at(to))


def run(
    run_id: int,
    *ranges: Range,
    result: str = "SUCCESS",
    life: str = "TERMINATED",
    epoch: str = "0",
    subscription: str = "delays",
) -> dict[str, Any]:
    """A run as `runs/list` gives it; ids are in the order of their start."""
    given = render(subscription, epoch, 0, "t" * 64, ranges, {})
    return {
        "run_id": run_id,
        "start_time": run_id * 1000,
        "state": {"life_cycle_state": life, **({"result_state": result} if life == "TERMINATED" else {})},
        "job_parameters": [{"name": name, "default": "", "value": value} for name, value in given],
    }


def kinds(found: Rebuilt) -> list[tuple[str, str, int]]:
    return [(one.kind, one.alias, one.run_id) for one in found.findings]


def test_the_marks_are_where_the_last_success_ended() -> None:
    newest_first = [
        run(3, flights(4, 9), weather(2, 2)),
        run(2, flights(1, 4), weather(-1, 2)),
        run(1, flights(-1, 1), weather(-1, -1)),
    ]
    found = rebuild("delays", newest_first)
    assert found.watermarks == {"flights": at(9), "weather": at(2)}
    assert found.proved_by == {"flights": 3, "weather": 2}
    assert found.findings == ()
    assert [piece.run_id for piece in found.pieces] == [1, 2, 3]


def test_failed_runs_and_those_of_others_prove_nothing() -> None:
    runs = [
        run(1, flights(-1, 1)),
        run(2, flights(1, 4), result="FAILED"),
        run(3, flights(1, 5), subscription="another"),
        {"run_id": 4, "start_time": 4000, "state": {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}},
    ]
    found = rebuild("delays", runs)
    assert found.watermarks == {"flights": at(1)}
    assert [piece.run_id for piece in found.pieces] == [1, 2]


def test_a_backfill_moves_no_mark() -> None:
    found = rebuild("delays", [run(1, flights(-1, 9)), run(2, flights(2, 4), epoch="backfill")])
    assert found.watermarks == {"flights": at(9)}
    assert [piece.run_id for piece in found.pieces] == [1]


def test_a_gap_is_shown_and_the_later_run_counts() -> None:
    found = rebuild("delays", [run(1, flights(-1, 1)), run(3, flights(4, 6))])
    assert kinds(found) == [("gap", "flights", 3)]
    assert found.findings[0].text == "nothing to be seen for (1, 4]"
    assert found.watermarks == {"flights": at(6)}


def test_an_overlap_is_shown() -> None:
    found = rebuild("delays", [run(1, flights(-1, 5)), run(2, flights(3, 8)), run(3, flights(2, 4))])
    assert kinds(found) == [("overlap", "flights", 2), ("overlap", "flights", 3)]
    assert found.watermarks == {"flights": at(8)}


def test_a_new_epoch_begins_where_it_says() -> None:
    rewound = [run(1, flights(-1, 9)), run(2, flights(3, 5), epoch="e1")]
    found = rebuild("delays", rewound)
    assert found.watermarks == {"flights": at(5)}, "what followed a rewind is what counts"
    assert found.findings == ()


def test_another_table_under_the_name_is_shown_and_counts_from_there() -> None:
    found = rebuild("delays", [run(1, flights(-1, 9)), run(2, flights(-1, 2, "t2"))])
    assert kinds(found) == [("replaced", "flights", 2)]
    assert found.watermarks == {"flights": at(2, "t2")}


def test_runs_positions_are_merged() -> None:
    first, second = RunsPosition(0, frozenset({1, 2})), RunsPosition(100, frozenset({2, 3}))
    runs = [
        run(1, Range("by_file", "bronze", RunsPosition(0), first, (1, 2))),
        run(2, Range("by_file", "bronze", first, second, (3,))),
    ]
    mark = rebuild("delays", runs).watermarks["by_file"]
    assert isinstance(mark, RunsPosition)
    assert mark.low_water_ms == 100
    assert mark.done >= {2, 3}


def test_a_mark_over_runs_is_that_of_the_newest_range_and_remembers_no_older_ones() -> None:
    marks = [RunsPosition(n * 100, frozenset({n, n + 1}), late=frozenset({(5, 99)})) for n in range(1, 5)]
    marks.append(RunsPosition(400, frozenset({5, 6})))
    runs = [
        run(n, Range("by_file", "bronze", from_, to, (n + 9,)))
        for n, (from_, to) in enumerate(pairwise(marks), start=1)
    ]
    assert rebuild("delays", runs).watermarks == {"by_file": marks[-1]}
    assert rebuild("delays", runs[:-1]).watermarks == {"by_file": marks[-2]}
    assert rebuild("delays", [runs[0], runs[-1]]).watermarks["by_file"] == RunsPosition(400, frozenset({2, 3, 5, 6}))


def test_a_success_that_does_not_show_its_ranges_is_a_finding() -> None:
    broken = run(2, flights(1, 4))
    broken["job_parameters"] = [one for one in broken["job_parameters"] if one["name"] != "bridge_ranges"]
    found = rebuild("delays", [run(1, flights(-1, 1)), broken])
    assert kinds(found) == [("unreadable", "", 2)]


def test_another_witness_that_disagrees_is_a_finding() -> None:
    found = rebuild("delays", [run(1, flights(-1, 4))])
    agreed = witnessed(found, "flights", 4, "the control table")
    assert (agreed.findings, agreed.watermarks) == ((), found.watermarks)
    assert agreed.witnesses == (Witness("the control table", "flights", 4, True),)
    behind = witnessed(found, "flights", 3, "the checkpoint")
    assert behind.witnesses == (Witness("the checkpoint", "flights", 3, False),)
    assert behind.watermarks == found.watermarks, "a person decides, not the witness"
    assert kinds(behind) == [("disagrees", "flights", 1)]
    assert behind.findings[0].text == "the checkpoint says version 3, the runs say version 4"
    assert kinds(witnessed(found, "weather", 3, "the checkpoint")) == [("disagrees", "weather", 0)]


def test_witnesses_that_disagree_with_each_other_are_each_shown() -> None:
    found = rebuild("delays", [run(1, flights(-1, 4))])
    both = witnessed(witnessed(found, "flights", 3, "the checkpoint"), "flights", 6, "the control table")
    assert [one.text for one in both.findings] == [
        "the checkpoint says version 3, the runs say version 4",
        "the control table says version 6, the runs say version 4",
    ]


def test_a_persons_word_stands_over_the_runs() -> None:
    found = stated(rebuild("delays", [run(1, flights(-1, 4))]), "flights", TablePosition(6))
    found = stated(found, "weather", TablePosition(2))
    assert found.watermarks == {"flights": TablePosition(6, "t1", "m1"), "weather": TablePosition(2)}
    assert found.proved_by == {}
    record = record_of("delays", TARGET, "consumer", found, WHY, NOW, "e9")
    assert record.history[-1].what == (
        "rebuilt from 1 runs: flights at version 6 as was said, weather at version 2 as was said "
        "by ada: the bucket was emptied"
    )


def test_runs_of_a_former_name_count_and_the_newest_epoch_wins() -> None:
    runs = [
        run(1, flights(-1, 4), weather(-1, 2), subscription="old"),
        run(2, flights(4, 6), weather(2, 2), subscription="delays", epoch="e1"),
    ]
    assert rebuild("delays", runs[:1]).watermarks == {}
    found = rebuild("delays", runs, ["old"])
    assert found.watermarks == {"flights": at(6), "weather": at(2)}
    assert found.findings == ()


def test_the_command_that_rebuilds_is_whole() -> None:
    assert command("delays", TARGET) == (
        "databricks-bridge watermark rebuild delays --job-id 7 --databricks-conn-id CONNECTION "
        '--why "the ledger was lost" (CONNECTION leads to http://127.0.0.1:1; add --ledger LEDGER unless it is configured)'
    )


def test_a_record_is_made_in_a_new_epoch_and_says_from_what() -> None:
    found = rebuild("delays", [run(1, flights(-1, 1))])
    record = record_of("delays", TARGET, "consumer", found, WHY, NOW, "e9")
    assert (record.revision, record.epoch, record.claim) == (1, "e9", None)
    assert record.watermarks == {"flights": at(1)}
    assert record.history[-1].what == (
        "rebuilt from 1 runs: flights at version 1 by run 1 by ada: the bucket was emptied"
    )


def test_nothing_is_made_while_a_run_is_active() -> None:
    found = rebuild("delays", [run(1, flights(-1, 1)), run(2, flights(1, 4), life="RUNNING")])
    with pytest.raises(ClaimError, match="run 2 of job 7"):
        record_of("delays", TARGET, "consumer", found, WHY, NOW, "e9")


def test_nothing_is_made_from_nothing() -> None:
    found = rebuild("delays", [run(1, flights(-1, 1), result="FAILED")])
    with pytest.raises(LedgerLost, match="no successful run"):
        record_of("delays", TARGET, "consumer", found, WHY, NOW, "e9")


def test_a_position_without_ids_joins_any_table() -> None:
    start = Range("flights", "main.silver.flights", TablePosition(-1), at(3))
    found = rebuild("delays", [run(1, start), run(2, flights(3, 4))])
    assert found.findings == ()
