"""`claim`: what is open, and a person's verdict on it."""

from __future__ import annotations

from databricks_bridge.cli.running import DONE, NEEDS_A_PERSON, Report
from databricks_bridge.cli.session import Session
from databricks_bridge.cli.status import all_records, claim_line, expected_time, is_stuck
from databricks_bridge.core.closing import closed
from databricks_bridge.core.errors import ClaimError, InvalidArgument, NotFound
from databricks_bridge.core.outcomes import Ending, Outcome, outcome_of
from databricks_bridge.core.record import Claim, Record
from databricks_bridge.core.repair import Verdict, needs_a_person, resolved
from databricks_bridge.feeds.claim_runs import find_run
from databricks_bridge.workspace.client import Workspace


async def listing(session: Session) -> Report:
    """All open claims; exit code 3 when one waits for a person."""
    in_use = [one for one in await all_records(session) if closed(one) is None]
    open_ones = [(one, one.claim) for one in in_use if one.claim is not None]
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
    seen = await _look(session, record, record.claim, verdict)
    session.confirm([f"{record.subscription}: {new.history[-1].what}", f"Its run: {seen}."])
    await session.ledger().write(new)
    return Report(
        {"subscription": record.subscription, "verdict": verdict.value, "run": seen, "epoch": new.epoch},
        [f"{record.subscription}: {new.history[-1].what}"],
    )


async def _look(session: Session, record: Record, claim: Claim, verdict: Verdict) -> str:
    """What the workspace says of the claim's run. Raises ClaimError while it is active: two runs could then be at work; and
    where a claim is to be void that had a run.
    """
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
    run_id, outcome = await _run_of(workspace, claim)
    if run_id is None:
        return "none was started with the claim's token"
    if outcome is None:
        return f"run {run_id} is gone"
    if outcome.ending is Ending.ACTIVE:
        raise ClaimError(
            f"run {run_id} of the claim of subscription {record.subscription!r} is active ({outcome}); "
            "wait until it is over, or cancel it in Databricks"
        )
    if verdict is Verdict.VOID and outcome.ending is not Ending.NOTHING_RAN:
        raise ClaimError(
            f"run {run_id} of the claim of subscription {record.subscription!r} was started and ended ({outcome}); a claim is "
            "void only where no run was: resolve it as succeeded or as failed, by what the run has written"
        )
    return f"run {run_id} ended: {outcome}"


async def _run_of(workspace: Workspace, claim: Claim) -> tuple[int | None, Outcome | None]:
    """The run that the claim names, else the one that carries its token: it may have started just before the process died,
    and a run that is not shown may have another id. No outcome for one that is gone.
    """
    if claim.run_id is not None:
        try:
            return claim.run_id, outcome_of(await workspace.get_run(claim.run_id))
        except NotFound:
            pass
    found = await find_run(workspace, claim, claim.run_id)
    if found is None:
        return claim.run_id, None
    try:
        return found, outcome_of(await workspace.get_run(found))
    except NotFound as error:
        raise ClaimError(
            f"run {found} carries the claim's token, and is listed, but cannot be read yet ({error}); ask again in a minute"
        ) from error
