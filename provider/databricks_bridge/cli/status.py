"""`status`: what every subscription has done and is doing."""

from __future__ import annotations

from datetime import datetime

from databricks_bridge.cli.running import DONE, NEEDS_A_PERSON, Report
from databricks_bridge.cli.session import Session
from databricks_bridge.core.record import Claim, Record
from databricks_bridge.core.repair import moved_to, needs_a_person, shown


async def status(session: Session) -> Report:
    """All records of the ledger, or the one that was named; exit code 3 when a claim waits for a person."""
    if session.options.subscription:
        records = [await session.record()]
    else:
        records = await all_records(session)
    waiting = any(needs_a_person(record.claim) for record in records)
    now = session.now()
    lines = [line for record in records for line in _lines(record, now)]
    return Report(
        {"ledger": str(session.address), "subscriptions": [summary(record) for record in records]},
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
    away = moved_to(record)
    return {
        **value,
        "last": last,
        "moved_to": away[0] if away else None,
        "needs_a_person": needs_a_person(record.claim),
    }


def claim_line(claim: Claim, now: datetime) -> str:
    """A claim for people."""
    run = f"run {claim.run_id}" if claim.run_id is not None else "no run yet"
    minutes = max(0, round((now - claim.created_at).total_seconds() / 60))
    waits = ", waits for a person: databricks-bridge claim resolve" if needs_a_person(claim) else ""
    return f"{claim.status} claim on {claim}: {run}, generation {claim.generation}, {minutes} min old{waits}"


def _lines(record: Record, now: datetime) -> list[str]:
    away = moved_to(record)
    if away:
        return [f"{record.subscription}: moved to {away[0]}"]
    lines = [f"{record.subscription}: for {record.consumer}, revision {record.revision}"]
    lines += [f"  {alias} at {shown(mark)}" for alias, mark in sorted(record.watermarks.items())]
    lines.append(f"  {claim_line(record.claim, now)}" if record.claim else "  no open claim")
    if record.history:
        lines.append(f"  last: {record.history[-1].what} ({record.history[-1].at:%Y-%m-%d %H:%M:%S} UTC)")
    return lines
