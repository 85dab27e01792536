"""Asks an operator's postconditions, each where it lies. What cannot be read is an error, never a yes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from databricks_bridge.core.acts import Proved
from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.postconditions import (
    VOLUMES,
    CheckpointReached,
    ControlTableReached,
    asked_of,
    missing_of,
    untold_of,
)

if TYPE_CHECKING:
    from databricks_bridge.core.record import Claim
    from databricks_bridge.feeds.look import Looker


async def prove(
    conditions: Sequence[object],
    claim: Claim,
    run_id: int,
    *,
    subscription: str,
    databricks_conn_id: str,
    looker: Looker,
) -> Proved:
    """Whether all of them hold for this claim and run.

    Raises LedgerError, WorkspaceError or Unavailable where one cannot tell, and whatever a function raises: nothing is
    committed then, the claim stays open, and the next try asks again.
    """
    for one in conditions:
        if isinstance(one, CheckpointReached):
            missing = await _checkpoint(one, claim, one.databricks_conn_id or databricks_conn_id, looker)
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


async def _checkpoint(condition: CheckpointReached, claim: Claim, conn_id: str, looker: Looker) -> str:
    from databricks_bridge.ledgers.checkpoints import checkpoint_version, checkpoint_version_in_volume

    asked = asked_of(condition, claim.ranges)
    reached = {}
    for alias, to in asked.items():
        if condition.checkpoint.startswith(VOLUMES):
            workspace = await looker.workspace(conn_id)
            reached[alias] = await checkpoint_version_in_volume(workspace, condition.checkpoint, to.metadata_id)
        else:
            reached[alias] = await checkpoint_version(condition.checkpoint, to.metadata_id)
    return missing_of(condition, asked, reached)


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
    return missing_of(condition, asked, reached)
