"""run-now for a claim, and what each refusal of it means (`docs/outcomes.md` has the table)."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from databricks_bridge.core import acts
from databricks_bridge.core.errors import (
    BadAnswer,
    InvalidArgument,
    JobNotFound,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.core.record import Claim, Target
from databricks_bridge.feeds.claim_runs import find_run
from databricks_bridge.workspace.client import Workspace

log = logging.getLogger(__name__)

SEARCH_PAUSES = (0.0, 2.0, 5.0, 10.0, 20.0)
"""Seconds before each search for a run that run-now has started without telling its id."""

RESOLVE = "databricks-bridge claim resolve"

# The words of the API's promise ("If a run with the provided token is deleted, an error is returned"); it names no code.
_DELETED_RUN = re.compile(
    r"\brun\b(?!-now)(?:(?!\bjob\b).){0,120}\b(?:deleted|does not exist)\b|\bdeleted run\b"
    r"|(?:\b|_)token\b(?:(?!\bjob\b).){0,120}\bdeleted\b",
    re.IGNORECASE | re.DOTALL,
)
_RUN_ID = re.compile(r"\brun (?:id |with id )?(\d+)\b", re.IGNORECASE)
_QUOTA = re.compile(r"QUOTA|LIMIT_EXCEEDED|RESOURCE_EXHAUSTED|TOO_MANY|MAX_\w*RUNS?_\w*EXCEEDED", re.IGNORECASE)


async def start_run(
    workspace: Workspace, claim: Claim, *, continuous: bool, sleep: Callable[[float], Awaitable[None]]
) -> acts.RunStarted | acts.TokenSpent:
    """run-now with the claim's parameters under its token. Raises what `refused` makes of a refusal.

    :param workspace: the client of the claim's workspace.
    :param claim: the claim, as it is in the ledger.
    :param continuous: whether the job is continuous and not paused: then run-now would restart it, and is not called.
    :param sleep: waits that many seconds between two searches.
    """
    if continuous:
        found = await find_run(workspace, claim)
        if found is None:
            raise refuse_continuous(claim.target)
        return acts.RunStarted(found)
    try:
        run_id = await workspace.run_now(
            claim.target.job_id, job_parameters=dict(claim.parameters), idempotency_token=claim.token, queue=True
        )
    except (NotAuthenticated, Unavailable):
        raise
    except BadAnswer as error:
        if error.status != 200:
            raise
        return acts.RunStarted(await _search(workspace, claim, error, sleep))
    except WorkspaceError as error:
        spent = _token_spent(error)
        if spent is not None:
            log.warning("the run of the claim on %s was deleted: %s", claim, error)
            return spent
        raise refused(claim, error) from error
    return acts.RunStarted(run_id)


def is_continuous(settings: Mapping[str, Any]) -> bool:
    """Whether a job of these settings starts its own runs one after another, now."""
    continuous = settings.get("continuous")
    return isinstance(continuous, Mapping) and continuous.get("pause_status") != "PAUSED"


def refuse_continuous(target: Target) -> InvalidArgument:
    return InvalidArgument(
        f"{target} is continuous and not paused, so that run-now restarts it and answers without a run: pause it, take "
        "`continuous` out of its settings, or give another job"
    )


def job_deleted(target: Target, error: NotFound) -> JobNotFound:
    """The same error for a job that the workspace does not show, with what to do next."""
    return JobNotFound(
        f"{error}; {target} was deleted, or this identity may not see it, and no run was started: a claim that is open on "
        f"it stays open until it is resolved ({RESOLVE}), after which another job can take the subscription over",
        status=error.status,
        error_code=error.error_code,
    )


def refused(claim: Claim, error: WorkspaceError) -> WorkspaceError | Unavailable:
    """The same refusal with what to do next. The claim stays open, and no run was started."""
    stays = f"the claim on {claim} stays open, and no run was started"
    if isinstance(error, NotFound):
        return job_deleted(claim.target, error)
    if _QUOTA.search(f"{error.error_code or ''} {_said(error)}"):
        return Unavailable(f"{error}; {stays}: the next try asks again")
    if isinstance(error, NotPermitted):
        return error.saying(f"{error}; it needs CAN MANAGE RUN on {claim.target}: {stays}, the next try asks again")
    return error.saying(
        f"{error}; {stays}: put right what it names in the job; what the claim itself sends is fixed, and a new claim takes "
        f"new values: {RESOLVE} ... --as void"
    )


async def _search(
    workspace: Workspace, claim: Claim, error: BadAnswer, sleep: Callable[[float], Awaitable[None]]
) -> int:
    """The run that was started, by its token: run-now must not be called again for what may be there."""
    for pause in SEARCH_PAUSES:
        await sleep(pause)
        found = await find_run(workspace, claim)
        if found is not None:
            log.warning("%s; its run is %s", error, found)
            return found
    raise error.saying(
        f"{error}; no run with the token of the claim on {claim} is listed after {sum(SEARCH_PAUSES):.0f} s: look at the "
        f"runs of {claim.target} before the next try, and if none is ours, resolve the claim: {RESOLVE}"
    )


def _token_spent(error: WorkspaceError) -> acts.TokenSpent | None:
    said = _said(error)
    if isinstance(error, NotPermitted) or not _DELETED_RUN.search(said):
        return None
    run_id = _RUN_ID.search(said)
    return acts.TokenSpent(said, int(run_id[1]) if run_id else None)


def _said(error: WorkspaceError) -> str:
    """What the workspace itself said: our own words before it name the call, `run-now`."""
    before, _, said = str(error).partition(": HTTP ")
    return said or before
