"""`watermark rebuild`: a lost record, from the runs of its job."""

from __future__ import annotations

from databricks_bridge.cli.running import Report
from databricks_bridge.cli.session import Session
from databricks_bridge.cli.watermarks import parse_position
from databricks_bridge.core.around import consumer_of_dag
from databricks_bridge.core.closing import closed
from databricks_bridge.core.errors import InvalidArgument, LedgerError
from databricks_bridge.core.positions import Position, TablePosition
from databricks_bridge.core.rebuild import Rebuilt, record_of, stated, witnessed
from databricks_bridge.core.rebuild import rebuild as rebuild_from
from databricks_bridge.core.record import Record, Target
from databricks_bridge.core.repair import shown
from databricks_bridge.core.second_copy import brought_back, record_of_copy, stated_copy, variable_of
from databricks_bridge.ledgers.address import parse_address
from databricks_bridge.ledgers.checkpoints import checkpoint_reached
from databricks_bridge.ledgers.control_table import ControlTableKeep


async def rebuild(session: Session) -> Report:
    """Show what the runs tell and what does not fit, ask, and write the record into an empty ledger."""
    name = session.options.subscription
    stored = await session.ledger().read()
    if stored is not None:
        more = f"it is {state}" if (state := closed(stored)) else "use watermark rewind, set or adopt"
        raise LedgerError(
            f"the ledger {session.address} has a record of subscription {name!r}, nothing is lost; {more}"
        )
    if session.options.dag_id:
        return await _from_copy(session, name, session.options.dag_id)
    workspace = await session.workspace()
    if workspace is None:
        raise InvalidArgument(
            "give --databricks-conn-id, or DATABRICKS_HOST and DATABRICKS_TOKEN: the runs are read there"
        )
    job_id = session.options.job_id or await workspace.find_job(session.options.job_name)
    target = Target(workspace.host, await workspace.workspace_id(), job_id)
    formerly = session.options.formerly
    found = rebuild_from(name, [run async for run in workspace.list_runs(job_id=job_id)], formerly)
    found = _statements(session, await _witnesses(session, name, found))
    consumer = target.consumer
    record = record_of(name, target, consumer, found, session.reason(), session.now(), session.new_epoch())
    lines = _lines(name, target, found)
    session.confirm(lines)
    await session.ledger().write(record)
    return Report(
        {"subscription": name, "ledger": str(session.address), "epoch": record.epoch, **found.to_json()},
        [*lines, f"{name}: {record.history[-1].what}"],
    )


async def _from_copy(session: Session, name: str, dag_id: str) -> Report:
    """Around external work no run tells anything; its tasks keep a copy of the record in an Airflow Variable."""
    text = await session.airflow().variable(variable_of(name))
    copy = None if text is None else record_of_copy(text, name)
    said = _said(session, copy)
    consumer, reason, now = consumer_of_dag(dag_id), session.reason(), session.now()
    if said:
        record = stated_copy(copy, name, consumer, said, reason, now, session.new_epoch())
    else:
        record = brought_back(copy, name, consumer, reason, now)
    lines = [f"{alias} will be at {shown(mark)}" for alias, mark in sorted(record.watermarks.items())]
    if record.claim is not None:
        lines.append(f"its open claim on {record.claim} comes back too: the DAG run that has it can commit")
    session.confirm(lines)
    await session.ledger().write(record)
    return Report(
        {
            "subscription": name,
            "ledger": str(session.address),
            "epoch": record.epoch,
            "watermarks": {alias: mark.to_json() for alias, mark in sorted(record.watermarks.items())},
            "claim": record.claim.to_json() if record.claim else None,
        },
        [*lines, f"{name}: {record.history[-1].what}"],
    )


def _said(session: Session, copy: Record | None) -> dict[str, Position]:
    said = {}
    for given in session.options.mark:
        alias, _, text = given.partition("=")
        if not text:
            raise InvalidArgument(f"--mark is {given!r}; write SOURCE=VERSION, the source by its alias")
        said[alias] = parse_position(text, copy.watermarks.get(alias) if copy else None)
    return said


async def _witnesses(session: Session, name: str, found: Rebuilt) -> Rebuilt:
    """What a control table and checkpoints say, where they were named."""
    if session.options.control_table:
        address = parse_address(session.options.control_table)
        keep = session.keep(address)
        if not isinstance(keep, ControlTableKeep):
            raise InvalidArgument(
                f"--control-table is {address}; give control-table:conn_id/warehouse_id/catalog.schema"
            )
        for alias, version in (await keep.kept_watermarks(name)).items():
            found = witnessed(found, alias, version, f"the control table {keep.watermarks}")
    for given in session.options.checkpoint:
        alias, _, url = given.partition("=")
        if not url:
            raise InvalidArgument(f"--checkpoint is {given!r}; write SOURCE=URL, the source by its alias")
        mark = found.watermarks.get(alias)
        reached = await checkpoint_reached(url, mark.metadata_id if isinstance(mark, TablePosition) else None)
        version, who = reached.version, f"the checkpoint {url}"
        if isinstance(mark, TablePosition) and reached.inside == mark.version:
            # It has begun this version, and only the table's log, which is not read here, tells whether it is done.
            version, who = mark.version, f"{who}, which stands in this version,"
        found = witnessed(found, alias, version, who)
    return found


def _statements(session: Session, found: Rebuilt) -> Rebuilt:
    """What the person says, after what the witnesses say of the runs."""
    for given in session.options.mark:
        alias, _, text = given.partition("=")
        if not text:
            raise InvalidArgument(f"--mark is {given!r}; write SOURCE=VERSION, the source by its alias")
        found = stated(found, alias, parse_position(text, found.watermarks.get(alias)))
    return found


def _lines(name: str, target: Target, found: Rebuilt) -> list[str]:
    lines = [f"{len(found.pieces)} runs of {target} name subscription {name!r}:"]
    for piece in found.pieces:
        ranges = ", ".join(str(one) for one in piece.ranges if not one.empty) or "no readable ranges"
        lines.append(f"  run {piece.run_id} {piece.ending} in epoch {piece.epoch}: {ranges}")
    lines += [f"  {one.kind} of {one.alias or 'all'} at run {one.run_id}: {one.text}" for one in found.findings]
    if not found.findings:
        lines.append("  no gap, no overlap")
    lines += [f"  {one.who} agrees: {one.alias} at version {one.version}" for one in found.witnesses if one.agrees]
    lines += [f"{alias} will be at {shown(mark)}, {found.said_of(alias)}" for alias, mark in found.watermarks.items()]
    return lines
