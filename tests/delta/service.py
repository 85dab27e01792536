"""One HTTP service with scripted answers, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from databricks_bridge.workspace.client import Workspace

Reply = web.Response | Callable[[web.Request], web.Response]


@dataclass
class Service:
    """Answers `"METHOD /path"` by what is set for it, in turn when it is a list, whose last stays; else 404."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    url: str = ""
    pauses: list[float] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        key = f"{request.method} {request.raw_path}"
        self.asked.append(key)
        if request.can_read_body:
            self.bodies.append(await request.json())
        answer = self.answers.get(key.partition("?")[0])
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if answer is None:
            body = {"error_code": "ENDPOINT_NOT_FOUND", "message": f"No API found for '{key}'"}
            return web.json_response(body, status=404)
        if callable(answer):
            answer = answer()
        if isinstance(answer, web.Response):
            return answer
        return web.json_response(answer)

    async def sleep(self, seconds: float) -> None:
        """No time passes; the pauses are kept."""
        self.pauses.append(seconds)

    def workspace(self) -> Workspace:
        async def no_headers() -> dict[str, str]:
            return {}

        return Workspace(self.url, no_headers, sleep=self.sleep, random=lambda: 0.5)


@asynccontextmanager
async def serve() -> AsyncIterator[Service]:
    state = Service()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", state.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    state.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield state
    await runner.cleanup()
