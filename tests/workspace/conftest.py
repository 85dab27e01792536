from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.workspace.client import Workspace

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Server:
    """A real HTTP server that answers the scripted answers in turn; the last one stays."""

    script: list[Handler] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    host: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.json() if request.can_read_body else None)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await answer(request)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    state = Server()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", state.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    state.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield state
    await runner.cleanup()


def json_answer(body: Any, status: int = 200, **headers: str) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


def text_answer(text: str, status: int, content_type: str = "text/html", **headers: str) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        kept = {k.replace("_", "-"): v for k, v in headers.items()}
        return web.Response(text=text, status=status, content_type=content_type, headers=kept)

    return answer


async def dropped(request: web.Request) -> web.StreamResponse:
    """Closes the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut(request: web.Request) -> web.StreamResponse:
    """Announces a long body and closes in the middle of it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"run_id": ')
    assert request.transport is not None
    request.transport.close()
    return response


async def slow(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


@dataclass
class Time:
    """A clock that only sleep moves; `pauses` are the sleeps in seconds."""

    at: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.at += seconds

    def clock(self) -> float:
        return self.at


@pytest.fixture
def time() -> Time:
    return Time()


@dataclass
class Login:
    """Gives tokens in turn; the last one stays."""

    tokens: list[str]
    rebuilt: int = 0

    async def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    async def rebuild(self) -> None:
        self.rebuilt += 1
        if len(self.tokens) > 1:
            self.tokens.pop(0)


@pytest.fixture
def login() -> Login:
    return Login(["dapi-secret-one", "dapi-secret-two"])


@pytest.fixture
async def workspace(server: Server, time: Time, login: Login) -> AsyncIterator[Workspace]:
    async with Workspace(
        server.host,
        login.headers,
        reauthorize=login.rebuild,
        sleep=time.sleep,
        clock=time.clock,
        random=lambda: 0.5,
        try_seconds=2.0,
    ) as client:
        yield client
