"""`subscription`: which there are; moving one to another ledger, renaming and retiring it."""

from __future__ import annotations

from databricks_bridge.cli.running import Report
from databricks_bridge.cli.session import Session
from databricks_bridge.cli.status import all_records, state_of
from databricks_bridge.core import closing
from databricks_bridge.core.closing import How, closed
from databricks_bridge.core.errors import InvalidArgument, LedgerError
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.record import Record
from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.ledgers.address import AirflowAddress, parse_address
from databricks_bridge.ledgers.protocol import Ledger


async def listing(session: Session) -> Report:
    """Name, consumer, and what became of it where it is not in use."""
    records = await all_records(session)
    rows = []
    for record in records:
        state = closed(record)
        rows.append(
            {
                "subscription": record.subscription,
                "consumer": state.consumer if state else record.consumer,
                **state_of(record),
                "sources": sorted(record.watermarks),
            }
        )
    lines = [f"{record.subscription}: {closed(record) or record.consumer}" for record in records]
    return Report(
        {"ledger": str(session.address), "subscriptions": rows},
        lines or [f"no subscription has a record in the ledger {session.address}"],
    )


async def move(session: Session) -> Report:
    """The same record in another ledger; the old one keeps a tombstone."""
    name, source, target = session.options.subscription, session.address, parse_address(session.options.to)
    if source == target:
        raise InvalidArgument(f"subscription {name!r} is in the ledger {source} already")
    record = await session.record()
    left = _left(record, How.MOVED, str(target)) or closing.moved_away(
        record, str(target), session.reason(), session.now()
    )
    lines = [
        f"Subscription {name!r} will move from {source} to {target}, with {len(record.watermarks)} watermarks.",
        f"Tasks that still look in {source} will be refused: change ledger= (or the configuration) to {target}.",
    ]
    await _bring(session, left, session.keep(target).ledger(name), str(source), lines)
    return Report(
        {"subscription": name, "from": str(source), "to": str(target)},
        [f"{name}: moved from {source} to {target}; set ledger={str(target)!r} where it is defined"],
    )


async def rename(session: Session) -> Report:
    """The same record under another name, in a new epoch; the old name keeps a tombstone."""
    old, new = session.options.subscription, session.options.new
    # refuses a name that no subscription can have
    SubscriptionSpec(new, (TriggeredRuns(job_id=1),), "latest", Policy())
    if old == new:
        raise InvalidArgument(f"subscription {old!r} has that name already")
    record = await session.record()
    left = _left(record, How.RENAMED, new) or closing.renamed_away(record, new, session.reason(), session.now())
    epoch = session.new_epoch()
    lines = [
        f"Subscription {old!r} will be {new!r}, with {len(record.watermarks)} watermarks, in a new epoch, {epoch}.",
        f"Tasks that still say {old!r} will be refused: change the name where it is defined.",
    ]
    await _bring(session, left, session.keep(session.address).ledger(new), old, lines, epoch)
    return Report(
        {"subscription": new, "was": old, "epoch": epoch},
        [f"{old}: renamed to {new}; change the name where it is defined"],
    )


async def retire(session: Session) -> Report:
    """A tombstone, marks and all; or, with --undo, the record in use again."""
    record = await session.record()
    if session.options.undo:
        new = closing.reinstated(record, session.reason(), session.now())
        lines = [f"Subscription {record.subscription!r} will be in use again, for {new.consumer}."]
    else:
        new = closing.retired(record, session.reason(), session.now())
        lines = [f"Subscription {record.subscription!r} will be retired: tasks that use it will be refused."]
    session.confirm(lines)
    await session.ledger().write(new)
    return Report(
        {"subscription": record.subscription, "consumer": closing.owner(new), **state_of(new)},
        [f"{record.subscription}: {new.history[-1].what}"],
    )


async def _bring(
    session: Session, left: Record, place: Ledger, origin: str, lines: list[str], epoch: str | None = None
) -> None:
    """Three writes, so that a crash at any point leaves at most one record in use: park, close the old, open the new.

    Begun again it goes on where it stopped.
    """
    stored = await session.ledger().read()
    try:
        there = await place.read()
    except LedgerError as error:
        if epoch is None or not isinstance(session.address, AirflowAddress):
            raise
        raise LedgerError(f"{error}. {_AIRFLOW_RENAME.format(new=session.options.new)}") from error
    parked = closing.parked(left, origin, there, session.now())
    session.confirm(lines)
    await place.write(parked)
    if stored != left:
        await session.ledger().write(left)
    await place.write(closing.arrived(left, parked, session.now(), epoch))


_AIRFLOW_RENAME = (
    "Airflow keeps a record on its asset, and has to know the new one before: add "
    "inlets=[Asset(name='databricks_bridge.{new}', uri='x-databricks-bridge://subscription/{new}')] to the task that uses "
    "the old name, rename when Airflow has parsed it, and then change the name"
)


def _left(record: Record, how: How, to: str) -> Record | None:
    """The record as an earlier try of the same command left it, None where there was none."""
    state = closed(record)
    return record if state is not None and (state.how, state.to) == (how, to) else None
