"""`status`: what every subscription has done and is doing."""

from __future__ import annotations

from datetime import datetime, timedelta

from databricks_bridge.cli.running import DONE, NEEDS_A_PERSON, Report
from databricks_bridge.cli.session import Session
from databricks_bridge.core.claims import DENIED
from databricks_bridge.core.closing import How, closed
from databricks_bridge.core.record import Claim, Record
from databricks_bridge.core.repair import needs_a_person, shown
from databricks_bridge.core.stuck import claim_age, parse_time, shown_time, stuck_claim


async def status(session: Session) -> Report:
    """All records of the ledger, or the one that was named; exit code 3 when a claim or a source waits for a person."""
    if session.options.subscription:
        records = [await session.record()]
    else:
        records = await all_records(session)
    waiting = any(needs_a_person(record.claim) or record.problem for record in records)
    now, expected = session.now(), expected_time(session)
    lines = [line for record in records for line in _lines(record, now, expected)]
    rows = [{**summary(record), "stuck": is_stuck(record, expected, now)} for record in records]
    return Report(
        {"ledger": str(session.address), "subscriptions": rows},
        lines or [f"no subscription has a record in the ledger {session.address}"],
        NEEDS_A_PERSON if waiting else DONE,
    )


async def all_records(session: Session) -> list[Record]:
    """The records of the ledger, by name."""
    keep = session.keep(session.address)
    found = [await keep.ledger(name).read() for name in await keep.names()]
    return [record for record in found if record is not None]


def summary(record: Record) -> dict[str, object]:
    """A record for programs: all of it but its history, of which the last line is enough."""
    value = {name: field for name, field in record.to_json().items() if name != "history"}
    last = record.history[-1].to_json() if record.history else None
    return {
        **value,
        "last": last,
        **state_of(record),
        "needs_a_person": needs_a_person(record.claim) or bool(record.problem),
    }


def state_of(record: Record) -> dict[str, object]:
    """What became of a record that is not in use, for programs: `state` and, where it went on, its other place."""
    state = closed(record)
    return {
        "state": state.how.name.lower() if state else "in use",
        "moved_to": state.to if state and state.how is How.MOVED else None,
        "renamed_to": state.to if state and state.how is How.RENAMED else None,
    }


def expected_time(session: Session) -> timedelta | None:
    """What --expected says a run may take."""
    given = session.options.expected
    return parse_time(given) if given else None


def is_stuck(record: Record, expected: timedelta | None, now: datetime) -> bool | None:
    """None where nobody said how long a run may take."""
    return None if expected is None else stuck_claim(record, expected, now) is not None


def claim_line(record: Record, claim: Claim, now: datetime, expected: timedelta | None) -> str:
    """A claim for people."""
    run = f"run {claim.run_id}" if claim.run_id is not None else "no run yet"
    age = shown_time(claim_age(record, now))
    waits = ", waits for a person: databricks-bridge claim resolve" if needs_a_person(claim) else ""
    late = f"STUCK (over {shown_time(expected)}): " if expected and is_stuck(record, expected, now) else ""
    return (
        f"{late}{claim.status} claim on {claim}: {run}, generation {claim.generation}, {age} old{_denied(claim)}{waits}"
    )


def _denied(claim: Claim) -> str:
    """What the postcondition has against its last run, and what to do about that."""
    if not claim.denied:
        return ""
    return (
        f", the {DENIED}: {claim.denied} (once it holds, the next try of the task commits; a repair in Databricks runs the "
        "run again)"
    )


def _lines(record: Record, now: datetime, expected: timedelta | None) -> list[str]:
    state = closed(record)
    if state:
        return [f"{record.subscription}: {state}"]
    lines = [f"{record.subscription}: for {record.consumer}, revision {record.revision}"]
    lines += [f"  {alias} at {shown(mark)}" for alias, mark in sorted(record.watermarks.items())]
    lines.append(f"  {claim_line(record, record.claim, now, expected)}" if record.claim else "  no open claim")
    if record.problem:
        lines.append(f"  WAITS FOR A DECISION: {record.problem}")
    if record.history:
        lines.append(f"  last: {record.history[-1].what} ({record.history[-1].at:%Y-%m-%d %H:%M:%S} UTC)")
    return lines
