"""run-now for a claim: what becomes of the claim at each refusal, and how its run is found."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.claims import Plan
from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    InvalidArgument,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    RunFailed,
    Throttled,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.core.record import Claim, ClaimStatus
from databricks_bridge.feeds.claim_runs import cancel_unless_over, find_run
from databricks_bridge.feeds.starting import SEARCH_PAUSES, start_run
from tests.core.builders import NOW, TARGET
from tests.core.driving import claim_of, claimed_record
from tests.feeds.conftest import OK, Lab, failure
from tests.feeds.test_driver import Mortal, StillBorn, bounds, finish, one_life

SAID = "POST /api/2.2/jobs/run-now at http://w: HTTP {} {}: {}"
BEHIND = "BridgeReaderBehind: ops_share.silver.flights is at 0, the claim needs 1"


def refusal(kind: type[WorkspaceError], status: int, code: str, message: str) -> WorkspaceError:
    """As the client raises it."""
    return kind(SAID.format(status, code, message), status=status, error_code=code)


@dataclass
class Answers:
    """A workspace whose run-now refuses, and whose runs are listed from the given search on."""

    refuses: Exception | None = None
    listed: dict[str, Any] | None = None
    from_search: int = 0
    searches: int = 0
    started: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    async def run_now(self, job_id: int, **given: Any) -> int:
        self.started += 1
        if self.refuses is not None:
            raise self.refuses
        return 11

    async def list_runs(self, **asked: Any) -> AsyncIterator[dict[str, Any]]:
        self.asked.append(asked)
        self.searches += 1
        if self.listed is not None and self.searches > self.from_search:
            yield self.listed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def run_of(claim: Claim, run_id: int = 12) -> dict[str, Any]:
    return {"run_id": run_id, "start_time": 1, "job_parameters": [{"name": "bridge_token", "value": claim.token}]}


CLAIM = claim_of(claimed_record())


async def start(workspace: Any, *, continuous: bool = False) -> acts.Observation:
    return await start_run(workspace, CLAIM, continuous=continuous, sleep=workspace.sleep)


@pytest.mark.parametrize(
    ("kind", "status", "code", "said", "run_id"),
    [
        (WorkspaceError, 400, "INVALID_PARAMETER_VALUE", "The run 77 of this idempotency_token was deleted", 77),
        (
            WorkspaceError,
            400,
            "INVALID_PARAMETER_VALUE",
            "Run with the provided idempotency token has been deleted.",
            None,
        ),
        (NotFound, 400, "INVALID_PARAMETER_VALUE", "Run 77 does not exist.", 77),
        (NotFound, 404, "RESOURCE_DOES_NOT_EXIST", "The token belongs to a deleted run", None),
        (WorkspaceError, 409, "RESOURCE_CONFLICT", "idempotency_token abc: its run is deleted", None),
    ],
)
async def test_a_token_whose_run_was_deleted_is_told_as_that(
    kind: type[WorkspaceError], status: int, code: str, said: str, run_id: int | None
) -> None:
    seen = await start(Answers(refusal(kind, status, code, said)))
    assert isinstance(seen, acts.TokenSpent)
    assert seen.run_id == run_id
    assert said.split(".")[0] in seen.why


@pytest.mark.parametrize(
    "said",
    ["Job 7 does not exist.", "Cannot run job 7: it was deleted", "idempotency_token may have at most 64 characters"],
)
async def test_what_is_said_of_the_job_or_of_the_token_s_form_is_no_deleted_run(said: str) -> None:
    with pytest.raises(WorkspaceError):
        await start(Answers(refusal(WorkspaceError, 400, "INVALID_PARAMETER_VALUE", said)))


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            refusal(NotFound, 400, "INVALID_PARAMETER_VALUE", "Job 7 does not exist."),
            NotFound,
            "was deleted, or this identity may not see it.*claim resolve",
        ),
        (
            refusal(NotPermitted, 403, "PERMISSION_DENIED", "User does not have Manage Run permissions on job 7"),
            NotPermitted,
            "CAN MANAGE RUN on job 7.*stays open.*the next try asks again",
        ),
        (
            refusal(WorkspaceError, 400, "QUOTA_EXCEEDED", "The quota of active runs has been reached"),
            Unavailable,
            "stays open, and no run was started: the next try asks again",
        ),
        (
            refusal(WorkspaceError, 400, "INVALID_PARAMETER_VALUE", "Job parameters are too large"),
            WorkspaceError,
            "too large.*stays open, and no run was started.*claim resolve ... --as void",
        ),
        (Throttled("429", retry_after=3), Throttled, "429"),
        (NotAuthenticated("401", status=401), NotAuthenticated, "401"),
        (BadAnswer("a log-in page", status=302), BadAnswer, "a log-in page"),
    ],
    ids=["deleted job", "no right", "quota", "parameters", "throttled", "credentials", "no workspace"],
)
async def test_each_refusal_of_run_now_says_what_to_do(error: Exception, kind: type[BridgeError], words: str) -> None:
    workspace = Answers(error)
    with pytest.raises(kind, match=re.compile(words, re.DOTALL)):
        await start(workspace)
    assert workspace.started == 1


NO_RUN_ID = BadAnswer("run-now of job 7 in http://w answered without a run_id", status=200)


async def test_an_answer_without_a_run_id_is_searched_for_by_its_token_and_run_now_is_not_called_again() -> None:
    workspace = Answers(NO_RUN_ID, run_of(CLAIM), from_search=2)
    assert await start(workspace) == acts.RunStarted(12)
    assert (workspace.started, workspace.slept) == (1, list(SEARCH_PAUSES[:3]))


async def test_the_search_is_bounded_and_says_where_to_look() -> None:
    workspace = Answers(NO_RUN_ID)
    with pytest.raises(BadAnswer, match=r"no run with the token .* is listed after 37 s: look at the runs of job 7"):
        await start(workspace)
    assert workspace.searches == len(SEARCH_PAUSES)


async def test_an_open_claim_on_a_job_that_is_continuous_by_now_finds_its_run_or_is_refused() -> None:
    workspace = Answers(listed=run_of(CLAIM))
    assert await start(workspace, continuous=True) == acts.RunStarted(12)
    empty = Answers()
    with pytest.raises(InvalidArgument, match="is continuous and not paused"):
        await start(empty, continuous=True)
    assert (workspace.started, empty.started) == (0, 0)


async def test_a_run_is_found_by_its_id_too_and_from_a_day_before_the_claim_on() -> None:
    workspace: Any = Answers(listed={"run_id": 77, "start_time": 1})
    assert await find_run(workspace, CLAIM) is None
    assert await find_run(workspace, CLAIM, 77) == 77
    assert workspace.asked[0]["start_time_from_ms"] == int((NOW - timedelta(days=1)).timestamp() * 1000)
    assert workspace.asked[0]["job_id"] == TARGET.job_id


async def test_a_continuous_job_is_refused_before_the_claim(lab: Lab) -> None:
    plan = await lab.plan()
    settings = (await lab.analytics.get_job(lab.job_id))["settings"]
    await change(lab, {"continuous": {"pause_status": "UNPAUSED"}})
    with pytest.raises(InvalidArgument, match="is continuous and not paused, so that run-now restarts it"):
        await finish(lab, plan=plan)
    assert await lab.ledger.read() is None
    await change(lab, {"continuous": {"pause_status": "PAUSED"}})
    assert settings["name"] == "gold"


async def change(lab: Lab, settings: dict[str, Any]) -> None:
    body = {"job_id": lab.job_id, "new_settings": settings}
    await lab.analytics.post("/api/2.2/jobs/update", body, safe=False)


async def test_a_token_whose_run_a_person_deleted_before_it_was_noted_gives_way_to_the_next_generation(
    lab: Lab,
) -> None:
    plan = await started_and_lost(lab)
    (run,) = await over(lab)
    await lab.analytics.post("/api/2.2/jobs/runs/delete", {"run_id": run["run_id"]}, safe=True)
    done = await finish(lab, plan=plan)
    assert bounds(lab) == [("0", "0"), ("0", "0")]
    assert done.run_id is not None
    history = [line.what for line in (await lab.record()).history]
    assert any(what.startswith("generation 1: the run of generation 0 was deleted: ") for what in history)


async def test_a_job_that_was_deleted_under_an_open_claim_says_what_to_do(lab: Lab) -> None:
    plan = await claimed_and_lost(lab)
    await lab.analytics.post("/api/2.2/jobs/delete", {"job_id": lab.job_id}, safe=True)
    with pytest.raises(NotFound, match=r"was deleted, or this identity may not see it.*claim resolve"):
        await finish(lab, plan=plan)
    claim = (await lab.record()).claim
    assert claim is not None
    assert claim.status is ClaimStatus.OPEN


class LostAfterStart(Mortal):
    async def _do(self, act: acts.Act) -> acts.Observation:
        self.left = self.done if isinstance(act, acts.StartRun) else 10**6
        return await super()._do(act)


class LostBeforeStart(StillBorn):
    async def _do(self, act: acts.Act) -> acts.Observation:
        self.left = self.done if isinstance(act, acts.StartRun) else 10**6
        return await super()._do(act)


async def started_and_lost(lab: Lab) -> Plan:
    """A claim whose run was started, and not noted."""
    assert not await one_life(lab, LostAfterStart, 0)
    return await lab.plan()


async def claimed_and_lost(lab: Lab) -> Plan:
    assert not await one_life(lab, LostBeforeStart, 0)
    return await lab.plan()


async def over(lab: Lab) -> list[dict[str, Any]]:
    """The runs, once all are over: a run at work cannot be deleted."""
    while True:
        runs = await lab.runs()
        if all(outcome_of(run).ending is not Ending.ACTIVE for run in runs):
            return runs


@pytest.mark.parametrize(
    ("answers", "status", "failures"),
    [
        ([failure(BEHIND), failure("ValueError: bad row")], ClaimStatus.FAILED, 1),
        ([failure("ValueError: bad row"), failure(BEHIND)], None, 0),
    ],
    ids=["behind, then failed", "failed, then behind"],
)
async def test_the_newest_attempt_of_a_task_says_why_the_run_failed(
    lab: Lab, answers: list[Any], status: ClaimStatus | None, failures: int
) -> None:
    plan = await lab.plan()
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/gold"}, "max_retries": 1}
    await change(lab, {"tasks": [task | {"min_retry_interval_millis": 0}]})
    lab.notebooks.answers = [*answers, OK]
    if status is None:
        await finish(lab, plan=plan)
        assert len(await lab.runs()) == 2
        assert any("BridgeReaderBehind" in line.what for line in (await lab.record()).history)
        return
    with pytest.raises(RunFailed, match="ValueError: bad row"):
        await finish(lab, plan=plan)
    claim = (await lab.record()).claim
    assert claim is not None
    assert (claim.status, claim.failures) == (status, failures)


async def test_a_young_run_that_is_not_shown_is_cancelled_all_the_same() -> None:
    class Young:
        cancelled: int | None = None

        async def get_run(self, run_id: int) -> dict[str, Any]:
            raise NotFound("Run 11 does not exist")

        async def cancel_run(self, run_id: int) -> None:
            self.cancelled = run_id

    workspace: Any = Young()
    assert await cancel_unless_over(workspace, 11)
    assert workspace.cancelled == 11


async def test_the_workspace_s_own_clock_is_known_from_its_answers(lab: Lab) -> None:
    await lab.plan()
    told = lab.analytics.service_now()
    assert told is not None
    assert abs(told - datetime.now(UTC)) < timedelta(minutes=1)
