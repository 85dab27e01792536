"""The deferred wait for a moment: the pause before a run that never ran is tried again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from databricks_bridge.triggers.polling import PollingTrigger


class PauseTrigger(PollingTrigger):
    """Waits until `until` (ISO time with zone)."""

    def __init__(self, *, until: str, deadline: str, poll_interval: float = 1.0) -> None:
        super().__init__(poll_interval=poll_interval, deadline=deadline)
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "databricks_bridge.triggers.pause.PauseTrigger",
            {"until": self.until, "deadline": self.deadline, "poll_interval": self.poll_interval},
        )

    async def _poll(self) -> dict[str, Any] | None:
        return {"until": self.until} if self._now() >= datetime.fromisoformat(self.until) else None
