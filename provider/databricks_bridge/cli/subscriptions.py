"""`subscription`: which there are, and moving one to another ledger."""

from __future__ import annotations

from databricks_bridge.cli.running import Report
from databricks_bridge.cli.session import Session
from databricks_bridge.cli.status import all_records
from databricks_bridge.core import repair
from databricks_bridge.core.errors import InvalidArgument, LedgerError
from databricks_bridge.ledgers.address import parse_address


async def listing(session: Session) -> Report:
    """Name, consumer and where it went, if it moved."""
    records = await all_records(session)
    rows = []
    for record in records:
        away = repair.moved_to(record)
        rows.append(
            {
                "subscription": record.subscription,
                "consumer": away[1] if away else record.consumer,
                "moved_to": away[0] if away else None,
                "sources": sorted(record.watermarks),
            }
        )
    lines = [
        f"{row['subscription']}: {'moved to ' + str(row['moved_to']) if row['moved_to'] else row['consumer']}"
        for row in rows
    ]
    return Report(
        {"ledger": str(session.address), "subscriptions": rows},
        lines or [f"no subscription has a record in the ledger {session.address}"],
    )


async def move(session: Session) -> Report:
    """Three writes, so that a crash at any point leaves at most one record in use: park, close the old, open the new.

    Begun again it goes on where it stopped.
    """
    name, source, target = session.options.subscription, session.address, parse_address(session.options.to)
    if source == target:
        raise InvalidArgument(f"subscription {name!r} is in the ledger {source} already")
    old, new = session.ledger(), session.keep(target).ledger(name)
    record, there = await session.record(), await new.read()
    away = repair.moved_to(record)
    if away is None:
        left = repair.moved_away(record, str(target), session.reason(), session.now())
    elif away[0] == str(target):
        left = record
    else:
        raise LedgerError(f"subscription {name!r} was moved to {away[0]} before; move it from there")
    parked = repair.parked(left, str(source), str(target), there, session.now())
    session.confirm(
        [
            f"Subscription {name!r} will move from {source} to {target}, with {len(record.watermarks)} watermarks.",
            f"Tasks that still look in {source} will be refused: change ledger= (or the configuration) to {target}.",
        ]
    )
    await new.write(parked)
    if away is None:
        await old.write(left)
    await new.write(repair.arrived(left, str(target), parked, session.now()))
    return Report(
        {"subscription": name, "from": str(source), "to": str(target)},
        [f"{name}: moved from {source} to {target}; set ledger={str(target)!r} where it is defined"],
    )
