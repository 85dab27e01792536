"""`subscription retarget`: another job or DAG goes on where the old consumer left off."""

from __future__ import annotations

from databricks_bridge.cli.running import Report
from databricks_bridge.cli.session import Session
from databricks_bridge.core import closing
from databricks_bridge.core.around import consumer_of_dag
from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.record import Target
from databricks_bridge.core.repair import shown


async def retarget(session: Session) -> Report:
    """Look the job up, ask, and write its name into the record."""
    record = await session.record()
    closing.refuse_claim(record)
    consumer = await _consumer(session)
    new = closing.retargeted(record, consumer, session.reason(), session.now(), session.new_epoch())
    marks = ", ".join(f"{alias} at {shown(mark)}" for alias, mark in sorted(record.watermarks.items()))
    session.confirm(
        [
            f"Subscription {record.subscription!r} will belong to {consumer}; it belonged to {record.consumer}.",
            f"It goes on from {marks or 'its start'}, in a new epoch, {new.epoch}.",
        ]
    )
    await session.ledger().write(new)
    return Report(
        {"subscription": record.subscription, "consumer": consumer, "was": record.consumer, "epoch": new.epoch},
        [f"{record.subscription}: {new.history[-1].what}"],
    )


async def _consumer(session: Session) -> str:
    options = session.options
    if options.dag_id:
        return consumer_of_dag(options.dag_id)
    workspace = await session.workspace()
    if workspace is None:
        raise InvalidArgument(
            "give --databricks-conn-id, or DATABRICKS_HOST and DATABRICKS_TOKEN: the job is looked up there"
        )
    if options.job_id:
        await workspace.get_job(options.job_id)
    job_id = options.job_id or await workspace.find_job(options.job_name)
    return Target(workspace.host, await workspace.workspace_id(), job_id).consumer
