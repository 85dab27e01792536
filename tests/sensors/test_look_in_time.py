"""A look in a worker takes no longer than what is left of the wait (T32)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSensorTimeout

from databricks_bridge.sensors import waiting
from databricks_bridge.sensors.waiting import Answer, WaitingSensor


class Hanging(WaitingSensor):
    """Its look never ends, and says that it was given up."""

    deferrable = False
    given_up = 0

    async def _look_once(self, context: Any) -> Answer | None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return None

    def _trigger(self, context: Any, poll_interval: float, deadline: str) -> Any:
        raise AssertionError("not deferred")

    def _answer(self, event: dict[str, Any]) -> Answer:
        return event

    @property
    def _awaited(self) -> str:
        return "something"


def test_a_look_that_hangs_ends_with_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SHORTEST_CALL_SECONDS", 0.05)
    sensor = Hanging(task_id="wait", timeout=0.05, poke_interval=0.01)
    with pytest.raises(AirflowSensorTimeout):
        sensor.execute({})  # type: ignore[arg-type, typeddict-item]
    assert sensor.given_up >= 1
