"""`claim`: what is open, and a person's verdict on it."""

from __future__ import annotations

from datetime import timedelta

from databricks_bridge.cli.running import DONE, NEEDS_A_PERSON, Report
from databricks_bridge.cli.session import Session
from databricks_bridge.cli.status import all_records, claim_line, expected_time, is_stuck
from databricks_bridge.core.errors import ClaimError, InvalidArgument, NotFound
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.core.parameter_names import TOKEN
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.record import Claim, Record
from databricks_bridge.core.repair import Verdict, needs_a_person, resolved
from databricks_bridge.workspace.client import Workspace

_CLOCKS_APART = timedelta(minutes=10)


async def listing(session: Session) -> Report:
    """All open claims; exit code 3 when one waits for a person."""
    open_ones = [(one, one.claim) for one in await all_records(session) if one.claim is not None]
    now, expected = session.now(), expected_time(session)
    rows = [
        {
            "subscription": one.subscription,
            "needs_a_person": needs_a_person(claim),
            "stuck": is_stuck(one, expected, now),
            **claim.to_json(),
        }
        for one, claim in open_ones
    ]
    lines = [f"{one.subscription}: {claim_line(one, claim, now, expected)}" for one, claim in open_ones]
    waiting = any(needs_a_person(claim) for _, claim in open_ones)
    return Report({"claims": rows}, lines or ["no open claim"], NEEDS_A_PERSON if waiting else DONE)


async def resolve(session: Session) -> Report:
    """Look at the run (or let the person vouch), ask, and write the verdict."""
    record = await session.record()
    verdict = Verdict(session.options.verdict)
    new = resolved(record, verdict, session.reason(), session.now(), session.new_epoch())
    assert record.claim is not None, "resolved() refuses a record without a claim"
    seen = await _look(session, record, record.claim)
    session.confirm([f"{record.subscription}: {new.history[-1].what}", f"Its run: {seen}."])
    await session.ledger().write(new)
    return Report(
        {"subscription": record.subscription, "verdict": verdict.value, "run": seen, "epoch": new.epoch},
        [f"{record.subscription}: {new.history[-1].what}"],
    )


async def _look(session: Session, record: Record, claim: Claim) -> str:
    """What the workspace says of the claim's run. Raises ClaimError while it is active: two runs could then be at work."""
    if session.options.without_looking:
        return "not looked at"
    workspace = await session.workspace()
    if workspace is None:
        raise InvalidArgument(
            f"the claim's run has to be looked at first, in {claim.target.host}: give --databricks-conn-id, or "
            "DATABRICKS_HOST and DATABRICKS_TOKEN; or vouch for it with --without-looking"
        )
    if workspace.host != claim.target.host:
        raise InvalidArgument(f"the claim's run is in {claim.target.host}, not in {workspace.host}")
    run_id = claim.run_id if claim.run_id is not None else await _find(workspace, claim)
    if run_id is None:
        return "none was started with the claim's token"
    try:
        outcome = outcome_of(await workspace.get_run(run_id))
    except NotFound:
        return f"run {run_id} is gone"
    if outcome.ending is Ending.ACTIVE:
        raise ClaimError(
            f"run {run_id} of the claim of subscription {record.subscription!r} is active ({outcome}); "
            "wait until it is over, or cancel it in Databricks"
        )
    return f"run {run_id} ended: {outcome}"


async def _find(workspace: Workspace, claim: Claim) -> int | None:
    """The run that carries the claim's token: it may have started just before the process died."""
    from_ms = int((claim.created_at - _CLOCKS_APART).timestamp() * 1000)
    async for run in workspace.list_runs(job_id=claim.target.job_id, start_time_from_ms=from_ms):
        if of_run(run).get(TOKEN) == claim.token:
            return int(run["run_id"])
    return None
