"""The deferred wait for one run, ours or not. It only watches: it never cancels."""

from __future__ import annotations

from typing import Any

from databricks_bridge.core.errors import NotFound
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.hooks.databricks import open_workspace
from databricks_bridge.triggers.polling import PollingTrigger
from databricks_bridge.workspace.client import Workspace


class RunTrigger(PollingTrigger):
    """Looks at a run until it is over, or gone. What that means is read again by the task that resumes."""

    def __init__(self, *, databricks_conn_id: str, run_id: int, poll_interval: float, deadline: str) -> None:
        super().__init__(poll_interval=poll_interval, deadline=deadline)
        self.databricks_conn_id = databricks_conn_id
        self.run_id = run_id
        self._workspace: Workspace | None = None
        self._warned = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "databricks_bridge.triggers.run.RunTrigger",
            {
                "databricks_conn_id": self.databricks_conn_id,
                "run_id": self.run_id,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
            },
        )

    async def _poll(self) -> dict[str, Any] | None:
        if self._workspace is None:
            self._workspace = await open_workspace(self.databricks_conn_id)
        try:
            outcome = outcome_of(await self._workspace.get_run(self.run_id))
        except NotFound:
            return {"run_id": self.run_id, "outcome": "gone"}
        if not outcome.known and not self._warned:
            self.log.warning("run %s is in a state new to us (%s); waiting on", self.run_id, outcome)
            self._warned = True
        return None if outcome.ending is Ending.ACTIVE else {"run_id": self.run_id, "outcome": str(outcome)}

    async def cleanup(self) -> None:
        if self._workspace is not None:
            workspace, self._workspace = self._workspace, None
            await workspace.close()
