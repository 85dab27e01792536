"""A try that comes after a commit returns that commit: committed, and Airflow was never told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import COMMITS_KEPT, ClaimStatus, Record
from databricks_bridge.core.repair import Verdict, resolved
from databricks_bridge.core.task_try import TaskTry
from tests.core.builders import FLIGHTS, NOW, at, plan_of
from tests.core.driving import NEW_FLIGHTS, OK, Script, claim_of, claimed_record, seen

FIRST = TaskTry("delays", "run_1", "build_gold", -1, 1)
NOTHING_NEW = {"flights": TableFinding(at(5), None, NOW)}
MORE = {"flights": TableFinding(at(8), 8, NOW)}


def plan(task: TaskTry | None = FIRST, **more: Any) -> Any:
    return plan_of(task=task, **more)


def committed(
    task: TaskTry | None = FIRST, record: Record | None = None, findings: Any = None, run_id: int = 11
) -> Record:
    """The record after this task claimed, ran and committed; its own end is not told to Airflow."""
    script = Script(plan(task))
    script = script.first_start() if record is None else script.read(record)
    claimed = script.look(NEW_FLIGHTS if findings is None else findings).written()
    script.asks(acts.StartRun)
    ended = seen(run_id, OK, claim_of(claimed))
    noted = script.answer(acts.RunStarted(run_id)).answer(ended).written()
    script.read(noted)
    return script.written()


def test_the_next_try_succeeds_with_what_was_committed() -> None:
    record = committed()
    finish = Script(plan(replace(FIRST, number=2))).read(record).asks(acts.Finish)
    assert finish.run_id == 11
    assert [str(one) for one in finish.ranges] == ["ops_share.silver.flights (-1, 5]"]
    assert finish.reason == "committed ops_share.silver.flights (-1, 5]"


def test_it_is_the_same_answer_as_the_one_that_was_lost() -> None:
    script = Script(plan()).first_start().look()
    claimed = script.written()
    noted = script.answer(acts.RunStarted(11)).answer(seen(11, OK, claim_of(claimed))).written()
    script.read(noted)
    record = script.written()
    lost = script.asks(acts.Finish)
    again = Script(plan(replace(FIRST, number=3))).read(record).asks(acts.Finish)
    assert (again.run_id, again.reason) == (lost.run_id, lost.reason)
    assert again.ranges == tuple(one for one in lost.ranges if not one.empty)


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, dag_id="other", number=2),
        replace(FIRST, run_id="run_2", number=2),
        replace(FIRST, task_id="other", number=2),
        replace(FIRST, map_index=0, number=2),
        None,
    ],
)
def test_another_task_gets_nothing_new(other: TaskTry | None) -> None:
    finish = Script(plan(other)).read(committed()).look(NOTHING_NEW).asks(acts.Finish)
    assert (finish.ranges, finish.run_id) == ((), None)


def test_the_record_has_moved_on_meanwhile() -> None:
    """The next DAG run has processed more; the try that comes late still returns its own, even beside an open claim."""
    record = committed(replace(FIRST, run_id="run_2"), committed(), MORE, run_id=12)
    open_claim = (
        Script(plan(replace(FIRST, run_id="run_3"))).read(record).look({"flights": TableFinding(at(9), 9, NOW)})
    )
    for stored in (record, open_claim.written()):
        finish = Script(plan(replace(FIRST, number=2))).read(stored).asks(acts.Finish)
        assert (finish.run_id, str(finish.ranges[0])) == (11, "ops_share.silver.flights (-1, 5]")


def test_each_map_index_gets_its_own() -> None:
    zero, one = replace(FIRST, map_index=0), replace(FIRST, map_index=1)
    record = committed(one, committed(zero), MORE, run_id=12)
    runs = [Script(plan(replace(task, number=2))).read(record).asks(acts.Finish).run_id for task in (zero, one)]
    assert runs == [11, 12]


def test_a_cleared_task_processes_what_is_pending() -> None:
    cleared = replace(FIRST, number=2, cleared=1)
    Script(plan(cleared)).read(committed()).look(MORE).asks(acts.WriteRecord)


@pytest.mark.parametrize("wait", [False, True])
def test_a_cleared_task_with_nothing_pending_returns_what_it_committed(wait: bool) -> None:
    """Its own tasks after it are not skipped, and no run is started."""
    cleared = replace(FIRST, number=2, cleared=1)
    finish = Script(plan(cleared, wait=wait)).read(committed()).look(NOTHING_NEW).asks(acts.Finish)
    assert (finish.run_id, str(finish.ranges[0])) == (11, "ops_share.silver.flights (-1, 5]")


def test_a_retry_after_a_clear_returns_what_came_after_the_clear() -> None:
    record = committed(replace(FIRST, number=2, cleared=1), committed(), MORE, run_id=12)
    finish = Script(plan(replace(FIRST, number=3, cleared=1))).read(record).asks(acts.Finish)
    assert (finish.run_id, str(finish.ranges[0])) == (12, "ops_share.silver.flights (5, 8]")
    assert len(record.commits) == 1, "of one task the newest is kept"


def test_a_given_up_try_of_the_same_task_commits_first() -> None:
    """Airflow thought it dead; the retry follows the same run, and both come to its end."""
    script = Script(plan(replace(FIRST, number=2)))
    claimed = claimed_record(plan())
    noted = replace(claimed, claim=replace(claim_of(claimed), run_id=11))
    script.read(noted).answer(seen(11, OK, claim_of(noted)))
    zombie = Script(plan()).read(noted).answer(seen(11, OK, claim_of(noted))).read(noted).written()
    finish = script.read(zombie).asks(acts.Finish)
    assert [str(one) for one in finish.ranges] == ["ops_share.silver.flights (-1, 5]"]


def test_as_many_are_remembered_as_there_is_room_for() -> None:
    record = committed()
    for number in range(2, COMMITS_KEPT + 5):
        task = replace(FIRST, run_id=f"run_{number}")
        record = committed(task, record, {"flights": TableFinding(at(5 + number), 5 + number, NOW)}, run_id=10 + number)
    assert len(record.commits) == COMMITS_KEPT
    assert FLIGHTS.alias == record.commits[-1].ranges[0].alias
    assert record.commits[-1].run_id == 10 + COMMITS_KEPT + 4


@pytest.mark.parametrize("cleared", [0, 1])
def test_what_a_person_says_was_processed_is_the_task_s_result(cleared: int) -> None:
    """A blocked claim is resolved as succeeded, and the failed task is cleared, or comes again: what is after it is not skipped."""
    record = claimed_record(plan())
    record = replace(record, claim=replace(claim_of(record), run_id=11, status=ClaimStatus.BLOCKED))
    record = resolved(record, Verdict.SUCCEEDED, Reason("ada", "the gold table has it"), NOW, "e1")
    script = Script(plan(replace(FIRST, number=2, cleared=cleared))).read(record)
    finish = (script.look(NOTHING_NEW) if cleared else script).asks(acts.Finish)
    assert (finish.run_id, str(finish.ranges[0])) == (11, "ops_share.silver.flights (-1, 5]")
