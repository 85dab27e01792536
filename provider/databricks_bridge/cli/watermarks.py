"""`watermark`: reading marks and history, and the three ways to move a mark by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from databricks_bridge.cli.running import Report
from databricks_bridge.cli.session import Session
from databricks_bridge.core import repair
from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.positions import BEFORE_FIRST, Position, RunsPosition, TablePosition
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Record
from databricks_bridge.core.repair import shown

Move = Callable[[Record, str, Position, Reason, datetime, str], Record]


async def get(session: Session) -> Report:
    """The watermarks of a subscription, or of one of its sources."""
    record = await session.record()
    wanted = session.options.source
    if wanted and wanted not in record.watermarks:
        raise InvalidArgument(
            f"{record.subscription!r} has no source {wanted!r}; it has {', '.join(record.watermarks)}"
        )
    marks = {alias: mark for alias, mark in sorted(record.watermarks.items()) if wanted in (None, alias)}
    value = {alias: mark.to_json() for alias, mark in marks.items()}
    return Report(
        {"subscription": record.subscription, "epoch": record.epoch, "watermarks": value},
        [f"{alias}: {shown(mark)}" for alias, mark in marks.items()],
    )


async def history(session: Session) -> Report:
    """The last transitions; the time is the ledger's own where it has one."""
    record = await session.record()
    entries = await session.ledger().history(session.options.count)
    return Report(
        {"subscription": record.subscription, "history": [one.to_json() for one in entries]},
        [f"{one.revision:>6}  {one.at:%Y-%m-%d %H:%M:%S}  {one.what}" for one in entries],
    )


async def set(session: Session) -> Report:  # the command's word
    return await _place(session, repair.set_forward)


async def rewind(session: Session) -> Report:
    return await _place(session, repair.rewound)


async def adopt(session: Session) -> Report:
    """A position of the table that has the name now; or, with --of, the mark of the alias that the source had before."""
    of = session.options.of
    if of is None:
        return await _place(session, repair.adopted)
    record, source = await session.record(), session.options.source
    return await _written(
        session, repair.carried(record, source, of, session.reason(), session.now(), session.new_epoch())
    )


async def _place(session: Session, move: Move) -> Report:
    options = session.options
    record = await session.record()
    mark = record.watermarks.get(options.source)
    position = parse_position(options.position, mark)
    if isinstance(position, TablePosition):
        ids = getattr(options, "table_id", None), getattr(options, "metadata_id", None)
        position = TablePosition(position.version, *ids)
    return await _written(
        session, move(record, options.source, position, session.reason(), session.now(), session.new_epoch())
    )


async def _written(session: Session, new: Record) -> Report:
    name, source = new.subscription, session.options.source
    session.confirm([f"{name}: {new.history[-1].what}", f"This begins a new epoch, {new.epoch}."])
    await session.ledger().write(new)
    return Report(
        {
            "subscription": name,
            "source": source,
            "watermark": new.watermarks[source].to_json(),
            "epoch": new.epoch,
        },
        [f"{name}: {new.history[-1].what}", *_meant(new.watermarks[source]), WAITING],
    )


def _meant(mark: Position) -> list[str]:
    """What a mark that was set by hand does not decide, or decides."""
    if not isinstance(mark, TablePosition):
        return []
    if mark.version == BEFORE_FIRST:
        return ["The next claim is a full rebuild of the table that has the name then, as it is then."]
    return [SAME_TABLE] if mark.table_id or mark.metadata_id else []


SAME_TABLE = (
    "That is a version of the table that the record knows. For one that was re-created or replaced (CREATE OR REPLACE): "
    "watermark adopt, to go on from a version of the new one, or watermark rewind to earliest, to read it whole."
)


WAITING = (
    "A deferred task that already waits sees it with the next new data, within an hour, or at once when it is cleared."
)


def parse_position(text: str, mark: Position | None) -> Position:
    """A position of the kind that the source has. Raises InvalidArgument."""
    runs = isinstance(mark, RunsPosition)
    if text == "earliest":
        return RunsPosition(0) if runs else TablePosition(BEFORE_FIRST)
    if runs:
        try:
            at = datetime.fromisoformat(text)
        except ValueError as error:
            raise InvalidArgument(
                f'{text!r} is no time; the runs of a job need one (ISO 8601), or "earliest"'
            ) from error
        aware = at if at.tzinfo else at.replace(tzinfo=UTC)
        return RunsPosition(int(aware.timestamp() * 1000))
    if not text.isdecimal():
        raise InvalidArgument(f'{text!r} is no table version; give a number from 0 on, or "earliest"')
    return TablePosition(int(text))
