"""The deferred wait for one run, ours or not. It watches; it cancels only what a person told it to."""

from __future__ import annotations

import asyncio
from typing import Any

from databricks_bridge.core.cancelling import LONGEST_GAP_SECONDS, Pulse
from databricks_bridge.core.errors import NotFound
from databricks_bridge.core.outcomes import Ending, outcome_of
from databricks_bridge.feeds.claim_runs import cancel_unless_over
from databricks_bridge.feeds.new_states import Warned, warn_once
from databricks_bridge.hooks.databricks import open_workspace
from databricks_bridge.triggers.polling import PollingTrigger


class RunTrigger(PollingTrigger):
    """Looks at a run until it is over, or gone. What that means is read again by the task that resumes.

    `tried` names the try of the task that started the run (`operators.stopping.Tried`); without it the run is never
    cancelled.
    """

    def __init__(
        self,
        *,
        databricks_conn_id: str,
        run_id: int,
        poll_interval: float,
        deadline: str,
        tried: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(poll_interval=poll_interval, deadline=deadline)
        self.databricks_conn_id = databricks_conn_id
        self.run_id = run_id
        self.tried = tried
        self._warned: Warned = {}
        self._pulse: Pulse | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "databricks_bridge.triggers.run.RunTrigger",
            {
                "databricks_conn_id": self.databricks_conn_id,
                "run_id": self.run_id,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
                "tried": self.tried,
            },
        )

    async def _poll(self) -> dict[str, Any] | None:
        self._beat()
        runs = await self._seat.runs(self.databricks_conn_id)
        try:
            run = runs.run(self.run_id)
        except NotFound:
            return {"run_id": self.run_id, "outcome": "gone"}
        if run is None:
            return None
        outcome = outcome_of(run)
        self._beat()
        warn_once(run, self._warned, self.log.warning)
        return None if outcome.ending is Ending.ACTIVE else {"run_id": self.run_id, "outcome": str(outcome)}

    def _beat(self) -> Pulse:
        if self._pulse is None:
            self._pulse = Pulse(self._interval() + LONGEST_GAP_SECONDS)
        self._pulse.beat()
        return self._pulse

    async def on_kill(self) -> None:
        """Cancel the run when Airflow's own state of the task says that a person marked it.

        Airflow calls this too for a clear, and when another triggerer has taken over: the next try, or the other, follows
        the run. Nothing can be written to the ledger here; the next process records what became of the run.
        """
        from databricks_bridge.operators.stopping import Tried

        tried = Tried.from_json(self.tried)
        if tried is None:
            return
        state = await asyncio.to_thread(tried.mark, steady=self._beat().steady)
        if state is None or self._seconds_left() <= 0:
            return
        async with await open_workspace(self.databricks_conn_id) as workspace:
            if await cancel_unless_over(workspace, self.run_id):
                self.log.info("run %s is cancelled: a person marked its task %s", self.run_id, state)
