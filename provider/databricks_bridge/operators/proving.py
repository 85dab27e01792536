"""Asks an operator's postconditions, each where it lies. What cannot be read is an error, never a yes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from databricks_bridge.core.acts import Proved
from databricks_bridge.core.checkpoint import Reached, TableFiles
from databricks_bridge.core.errors import HistoryGap, LedgerError
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.postconditions import (
    VOLUMES,
    CheckpointReached,
    ControlTableReached,
    asked_of,
    missing_of,
    untold_of,
)
from databricks_bridge.core.sources import DeltaTable, Source
from databricks_bridge.core.texts import bounded

if TYPE_CHECKING:
    from databricks_bridge.core.record import Claim
    from databricks_bridge.delta.model import VersionSource
    from databricks_bridge.feeds.look import Looker


async def prove(
    conditions: Sequence[object],
    claim: Claim,
    run_id: int,
    *,
    subscription: str,
    databricks_conn_id: str,
    looker: Looker,
    sources: Sequence[Source] = (),
) -> Proved:
    """Whether all of them hold for this claim and run. The logs of `sources` tell how many files a version has that a stream
    stands in.

    Raises LedgerError, WorkspaceError or Unavailable where one cannot tell, and whatever a function raises: nothing is
    committed then, the claim stays open, and the next try asks again.
    """
    for one in conditions:
        if isinstance(one, CheckpointReached):
            missing = await _checkpoint(one, claim, one.databricks_conn_id or databricks_conn_id, looker, sources)
        elif isinstance(one, ControlTableReached):
            conn_id = one.databricks_conn_id or databricks_conn_id
            missing = await _control_table(one, claim, one.job or subscription, conn_id, looker)
        else:
            assert callable(one), "conditions_of lets nothing else through"
            said = one(claim.ranges, run_id)
            missing = "" if said is True else str(said or "it says no")
        if missing:
            return Proved(False, missing)
    untold = untold_of(conditions, claim.ranges, dict(claim.parameters).get("bridge_epoch", ""))
    return Proved(True, untold, certain=not untold)


async def _checkpoint(
    condition: CheckpointReached, claim: Claim, conn_id: str, looker: Looker, sources: Sequence[Source]
) -> str:
    from databricks_bridge.delta.counting import CountsFiles

    asked = asked_of(condition, claim.ranges)
    tables = {source.alias: source for source in sources if isinstance(source, DeltaTable)}
    reached: dict[str, int] = {}
    for alias, to in asked.items():
        log = await looker.table(tables[alias]) if alias in tables else None
        files = log if isinstance(log, CountsFiles) else None
        found = await _reached(condition, to, conn_id, looker, files)
        if found.version < to.version and found.inside is not None and found.inside <= to.version:
            raise LedgerError(
                f"{condition} stands inside version {found.inside} of {alias}, and how many files that version has cannot be "
                "read from the table's log here, so whether it is done is not known; nothing is committed. A later try looks "
                "again; where the log cannot be read at all, a person decides: `databricks-bridge claim resolve`"
            )
        there = found.version
        if there < to.version and log is not None and await _no_data_in(log, there, to.version):
            there = to.version
        reached[alias] = there
    return missing_of(condition, asked, reached)


async def _reached(
    condition: CheckpointReached, to: TablePosition, conn_id: str, looker: Looker, files: TableFiles | None
) -> Reached:
    from databricks_bridge.ledgers.checkpoints import checkpoint_reached, checkpoint_reached_in_volume

    if not condition.checkpoint.startswith(VOLUMES):
        return await checkpoint_reached(condition.checkpoint, to.metadata_id, files, condition.change_feed)
    workspace = await looker.workspace(conn_id)
    return await checkpoint_reached_in_volume(
        workspace, condition.checkpoint, to.metadata_id, files, condition.change_feed
    )


async def _no_data_in(log: VersionSource, after: int, to: int) -> bool:
    """Whether only commits without data lie in (after, to]: a stream need not move over them."""
    try:
        async for commit in log.commits(after, to):
            if commit.carries_data:
                return False
    except HistoryGap:
        return False
    return True


async def _control_table(condition: ControlTableReached, claim: Claim, job: str, conn_id: str, looker: Looker) -> str:
    from databricks_bridge.workspace.statements import Warehouse

    asked = asked_of(condition, claim.ranges)
    if not asked:
        return ""
    warehouse = Warehouse(await looker.workspace(conn_id), name=condition.warehouse)
    rows = await warehouse.execute(f"SELECT source, last_version FROM {condition.quoted} WHERE job = :job", job=job)
    reached: dict[str, int] = {}
    for row in rows:
        alias, version = str(row["source"]), row["last_version"]
        if alias in reached:
            raise LedgerError(f"{condition} has more than one row for job {job!r} and source {alias!r}; it cannot tell")
        if version is not None:
            reached[alias] = int(version)
    missing = missing_of(condition, asked, reached)
    looked = " or ".join(repr(alias) for alias in asked)
    there = ", ".join(repr(str(row["source"])) for row in rows) or "none"
    return missing and bounded(
        f"{missing}; looked for rows with job = {job!r} and source = {looked}, that job has the sources: {there}"
    )
