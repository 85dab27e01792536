"""`status`: what every subscription has done and is doing."""

from __future__ import annotations

from datetime import datetime, timedelta

from databricks_bridge.cli.running import DONE, NEEDS_A_PERSON, Report
from databricks_bridge.cli.session import Session
from databricks_bridge.core.claims import DENIED
from databricks_bridge.core.closing import How, closed
from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.record import Claim, Record
from databricks_bridge.core.repair import needs_a_person, shown
from databricks_bridge.core.stuck import claim_age, parse_time, shown_time, stuck_claim
from databricks_bridge.core.watching import WatchNote, note_from_json, restarts


async def status(session: Session) -> Report:
    """All records of the ledger, or the one that was named; exit code 3 when a claim or a source waits for a person."""
    if session.options.subscription:
        records = [await session.record()]
    else:
        records = await all_records(session)
    now, expected = session.now(), expected_time(session)
    notes = await _notes(session)
    by_name = {record.subscription: record for record in records}
    only_watched = set() if session.options.subscription else set(notes) - set(by_name)
    waiting = any(_waits(record) for record in records)
    waiting = waiting or any(
        _trouble(name, note, now) for name, note in notes.items() if name in {*by_name, *only_watched}
    )
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for name in sorted({*by_name, *only_watched}):
        record, note = by_name.get(name), notes.get(name, WatchNote())
        lines += _lines(record, now, expected) if record else [f"{name}: no record yet"]
        if record is None or closed(record) is None:
            lines += _watch_lines(name, note, now)
        row = {**summary(record), "stuck": is_stuck(record, expected, now)} if record else {"subscription": name}
        rows.append({**row, "watcher": note.to_json() if name in notes else None, "trouble": _trouble(name, note, now)})
    return Report(
        {"ledger": str(session.address), "subscriptions": rows},
        lines or [f"no subscription has a record in the ledger {session.address}"],
        NEEDS_A_PERSON if waiting else DONE,
    )


async def _notes(session: Session) -> dict[str, WatchNote]:
    """What watchers have kept of themselves, where this Airflow can be asked. That it cannot is no error of the ledger."""
    from databricks_bridge.ledgers.airflow_rest import AirflowRestKeep

    keep = session.airflow_keep()
    if not isinstance(keep, AirflowRestKeep):
        return {}
    try:
        return {name: note_from_json(value) for name, value in (await keep.watch_notes()).items()}
    except LedgerError:
        return {}


def _trouble(name: str, note: WatchNote, now: datetime) -> str:
    """What is wrong with the watcher; empty where nothing is known to be."""
    return note.trouble or restarts(name, note.starts, now)


def _watch_lines(name: str, note: WatchNote, now: datetime) -> list[str]:
    lines = [f"  newest seen of {alias}: {words} ({note.at[:19]} UTC)" for alias, words in sorted(note.latest.items())]
    if note.trouble:
        lines.append(f"  WATCHER IN TROUBLE since {note.since[:19]} UTC: {note.trouble}")
    if why := restarts(name, note.starts, now):
        lines.append(f"  WATCHER RESTARTS: {why}")
    return lines


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
        "needs_a_person": _waits(record),
    }


def _waits(record: Record) -> bool:
    """Whether nothing goes on until a person decides; a record that is not in use here waits for nothing."""
    return closed(record) is None and (needs_a_person(record.claim) or bool(record.problem))


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
