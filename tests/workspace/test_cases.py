"""Faults that users of neighbouring projects reported, with the client over real HTTP."""

from __future__ import annotations

from databricks_bridge.workspace.client import Workspace

from .conftest import Login, Server, Time, json_answer

LIMITED = json_answer({"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "slow"}, 429, Retry_After="7")
TOKEN = "t" * 64


async def test_A08_a_throttled_call_waits_as_asked_and_a_run_is_started_once(server: Server, login: Login) -> None:
    """That fifty who poll ask less often then, and not in one moment, is in test_line."""
    time = Time()
    shares = iter([0.0, 0.25, 0.5, 0.75, 1.0] * 20)
    async with Workspace(
        server.host, login.headers, sleep=time.sleep, clock=time.clock, random=lambda: next(shares), budget_seconds=600
    ) as workspace:
        server.script = [*[LIMITED] * 5, json_answer({"run_id": 1})]
        assert (await workspace.get_run(1))["run_id"] == 1
        polls = [pause for pause in time.pauses if pause >= 1]
        assert (len(server.requests), sum(polls) >= 5 * 7) == (6, True)
        assert len(set(polls)) > 1, "with jitter"
        server.script = [LIMITED, json_answer({"run_id": 12})]
        assert await workspace.run_now(7, job_parameters={}, idempotency_token=TOKEN) == 12
    started = [body for (method, _), body in zip(server.requests, server.bodies, strict=True) if method == "POST"]
    assert [body["idempotency_token"] for body in started] == [TOKEN] * 2
