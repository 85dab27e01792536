"""Around external work: ids, who may have a claim, its commit, and a record that was lost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.around import begin_commit
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import ClaimUndecided, LedgerError, LedgerLost
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Claim, Record, Target, record_from_json
from databricks_bridge.core.repair import Verdict, resolved
from databricks_bridge.core.second_copy import brought_back, copy_of, record_of_copy
from databricks_bridge.core.task_try import TaskTry
from tests.core.builders import NOW, at, plan_of
from tests.core.driving import NEW_FLIGHTS, Script, claim_of

FIRST = TaskTry("partner", "run_1", "claim_delays")
SECOND = replace(FIRST, run_id="run_2")
MORE = {"flights": TableFinding(at(8), 8, NOW)}
NOTHING_NEW = {"flights": TableFinding(at(5), None, NOW)}


def plan(task: TaskTry | None = FIRST, nonce: str = "one") -> Plan:
    target = Target("dag partner", "", 0)
    return plan_of(target=target, own_parameters={}, around=True, task=task, nonce=nonce, as_of=frozenset({"flights"}))


def claimed(task: TaskTry = FIRST, nonce: str = "one", record: Record | None = None, findings: Any = None) -> Record:
    script = Script(plan(task, nonce))
    script = script.first_start() if record is None else script.read(record)
    return script.look(NEW_FLIGHTS if findings is None else findings).written()


def commit(claim: Claim, task: TaskTry = FIRST) -> Script:
    script = Script(plan(replace(task, task_id="commit_delays")))
    script.memory, script.act = begin_commit(claim.token)
    return script


def committed(record: Record) -> Record:
    return commit(claim_of(record)).read(record).written()


def handed_out(script: Script) -> Claim:
    claim = script.asks(acts.Finish).claim
    assert claim is not None
    return claim


def test_an_id_never_comes_twice_with_another_range() -> None:
    """The record is lost, or the subscription begins anew: the first claim starts where the very first one did."""
    assert claim_of(claimed()).token != claim_of(claimed(nonce="two", findings=MORE)).token
    assert claim_of(claimed()).token != claim_of(claimed(findings=MORE)).token, "even with one nonce"
    assert claim_of(claimed()).token != claim_of(claimed(nonce="two")).token


def test_an_id_is_stored_and_stays_while_the_claim_is_open() -> None:
    record = record_from_json(json.loads(json.dumps(claimed().to_json())))
    again = Script(plan(replace(FIRST, number=2), nonce="another"))
    assert handed_out(again.read(record)) == claim_of(record)


def test_another_dag_run_does_not_get_a_claim_that_is_worked_on() -> None:
    record = claimed()
    script = Script(plan(SECOND)).read(record)
    assert script.asks(acts.AskDagRun).claim == record.claim
    finish = script.answer(acts.DagRunSeen(True)).asks(acts.Finish)
    assert finish.claim is None
    assert "DAG run run_1 works on the claim" in finish.reason


def test_nor_does_another_task_of_the_same_dag_run() -> None:
    script = Script(plan(replace(FIRST, map_index=1))).read(claimed())
    script.asks(acts.AskDagRun)


def test_it_is_handed_on_when_that_dag_run_is_over() -> None:
    record = claimed()
    script = Script(plan(SECOND)).read(record).answer(acts.DagRunSeen(False))
    after = script.written()
    assert handed_out(script) == replace(claim_of(record), task=SECOND)
    assert "handed the claim on to DAG run run_2, DAG run run_1 is over" in after.history[-1].what
    Script(plan(replace(SECOND, number=2))).read(after).asks(acts.Finish)
    Script(plan(replace(SECOND, run_id="run_3"))).read(after).asks(acts.AskDagRun)


def test_a_claim_of_an_older_release_is_handed_out() -> None:
    record = claimed()
    older = replace(record, claim=replace(claim_of(record), task=None))
    assert handed_out(Script(plan(SECOND)).read(older)).token == claim_of(record).token


def test_a_later_try_of_the_commit_sees_its_claim_committed() -> None:
    """The commit was written, and the answer or the process was lost."""
    record = claimed()
    first = commit(claim_of(record)).read(record)
    after = first.written()
    told = first.asks(acts.Finish)
    assert after.claim is None
    later = claimed(SECOND, "two", after, MORE)
    for stored in (after, later, committed(later)):
        again = commit(claim_of(record)).read(stored).asks(acts.Finish)
        assert (again.ranges, again.reason) == (told.ranges, told.reason)


def test_a_commit_whose_write_is_lost_to_another_writer_looks_again() -> None:
    """It never turns into a claim task, which would end well without a commit."""
    record = claimed()
    script = commit(claim_of(record)).read(record)
    script.asks(acts.WriteRecord)
    script.answer(acts.RecordLost()).read(replace(record, revision=record.revision + 1))
    assert script.written().claim is None
    assert script.asks(acts.Finish).ranges


def test_a_retry_of_the_claim_after_the_commit_gets_the_same_claim() -> None:
    record = claimed()
    again = handed_out(Script(plan(replace(FIRST, number=2), "other")).read(committed(record)))
    first = claim_of(record)
    assert (again.token, again.ranges, again.parameters) == (first.token, first.ranges, first.parameters)


def test_a_cleared_claim_gets_what_is_pending() -> None:
    cleared = replace(FIRST, number=2, cleared=1)
    after = committed(claimed())
    assert Script(plan(cleared)).read(after).look(NOTHING_NEW).asks(acts.Finish).claim is None
    Script(plan(cleared)).read(after).look(MORE).asks(acts.WriteRecord)


def test_a_claim_that_a_person_resolved_is_not_committed() -> None:
    record = claimed()
    with_none = replace(record, claim=None)
    error = commit(claim_of(record)).read(with_none).fails(ClaimUndecided)
    assert "no open claim" in str(error)


@pytest.mark.parametrize("findings", [NEW_FLIGHTS, NOTHING_NEW])
def test_a_lost_record_is_no_first_start(findings: Any) -> None:
    script = Script(plan()).read(None)
    script.asks(acts.Survey)
    script.answer(acts.Surveyed(None, "the Airflow Variable databricks_bridge.delays")).read(None)
    error = str(script.fails(LedgerLost))
    assert "the Airflow Variable databricks_bridge.delays is its second copy" in error
    assert "databricks-bridge watermark rebuild delays --dag-id partner" in error


def test_a_record_that_came_in_between_is_none_that_was_lost() -> None:
    record = claimed()
    script = Script(plan(SECOND)).read(None).answer(acts.Surveyed(None, "a copy")).read(record)
    script.asks(acts.AskDagRun)


WHY = Reason("ada", "all was cleared")


def test_the_copy_brings_back_the_record_with_its_open_claim() -> None:
    record = claimed(SECOND, "two", committed(claimed()), MORE)
    back = brought_back(record_of_copy(copy_of(record), "delays"), "delays", "dag partner", WHY, NOW)
    assert (back.watermarks, back.claim, back.commits, back.epoch) == (
        record.watermarks,
        record.claim,
        record.commits,
        record.epoch,
    )
    assert back.revision == 1
    assert back.history[-1].what == "brought back from its second copy by ada: all was cleared"
    done = commit(claim_of(record)).read(back).written()
    mark = done.watermarks["flights"]
    assert isinstance(mark, TablePosition)
    assert mark.version == 8


def test_a_copy_that_is_missing_or_of_another_is_refused() -> None:
    with pytest.raises(LedgerLost, match="--mark SOURCE=VERSION"):
        brought_back(None, "delays", "dag partner", WHY, NOW)
    with pytest.raises(LedgerError, match="belongs to dag partner, not to dag other"):
        brought_back(claimed(), "delays", "dag other", WHY, NOW)
    with pytest.raises(LedgerError, match="holds the copy of subscription 'delays'"):
        record_of_copy(copy_of(claimed()), "other")
    with pytest.raises(LedgerError, match="holds no copy"):
        record_of_copy("{", "delays")


def test_a_claim_that_a_person_says_is_done_can_be_committed_again() -> None:
    record = claimed()
    after = resolved(record, Verdict.SUCCEEDED, WHY, NOW, "e1")
    finish = commit(claim_of(record)).read(after).asks(acts.Finish)
    assert [str(one) for one in finish.ranges] == ["ops_share.silver.flights (-1, 5]"]
