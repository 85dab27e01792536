"""The part of the Jobs API that waits use, from memory, with what can go wrong with it.

`runs/list` pages, orders and filters as Jobs API 2.2 does; every request is counted. Answers of trouble come before good
ones: `trouble` is a list of handlers, each used once.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PAGE = 24
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass
class JobsService:
    """Jobs and runs of one workspace. `per_second` is the rate above which it answers 429; no limit where it is None."""

    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    trouble: list[Answer] = field(default_factory=list)
    per_second: int | None = None
    shut_until: float = 0.0
    refused: list[float] = field(default_factory=list)
    asked: deque[float] = field(default_factory=deque)
    queries: list[str] = field(default_factory=list)
    host: str = ""

    def job(self, job_id: int, name: str) -> int:
        self.jobs[job_id] = name
        return job_id

    def start(self, run_id: int, job_id: int, *, at_ms: int | None = None, trigger: str = "FILE_ARRIVAL") -> int:
        """A run that is active from now on."""
        self.runs[run_id] = {
            "run_id": run_id,
            "job_id": job_id,
            "trigger": trigger,
            "start_time": now_ms() if at_ms is None else at_ms,
            "end_time": 0,
            "state": {"life_cycle_state": "RUNNING"},
            "status": {"state": "RUNNING"},
            "run_page_url": f"{self.host}/#job/{job_id}/run/{run_id}",
            "job_parameters": [{"name": "region", "default": "", "value": "NY"}],
            "attempt_number": 0,
        }
        return run_id

    def end(self, run_id: int, result: str = "SUCCESS", *, at_ms: int | None = None) -> None:
        """The run is over; a run that was over is so again with another result, as after a repair."""
        run = self.runs[run_id]
        kind = "SUCCESS" if result == "SUCCESS" else "CLIENT_ERROR"
        run["state"] = {"life_cycle_state": "TERMINATED", "result_state": result}
        run["status"] = {"state": "TERMINATED", "termination_details": {"code": result, "type": kind}}
        run["end_time"] = now_ms() if at_ms is None else at_ms

    def reopen(self, run_id: int) -> None:
        """A person repairs the run."""
        state = {"life_cycle_state": "RUNNING"}
        self.runs[run_id] |= {"state": state, "status": {"state": "RUNNING"}, "end_time": 0}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path.split("/", 3)[-1]
        self.counts[path] += 1
        self.queries.append(request.path_qs)
        if refusal := self._refusal():
            return refusal
        if self.trouble:
            return await self.trouble.pop(0)(request)
        query = dict(request.query)
        if request.can_read_body and (body := await request.text()):
            query |= {
                name: str(value) for name, value in json.loads(body).items()
            }  # the official hook's GETs have bodies
        return self._answer(path, query)

    def _refusal(self) -> web.Response | None:
        now = time.monotonic()
        wait = self.shut_until - now
        if wait <= 0 and self.per_second is not None:
            while self.asked and self.asked[0] <= now - 1:
                self.asked.popleft()
            if len(self.asked) >= self.per_second:
                wait = 1.0
            else:
                self.asked.append(now)
        if wait <= 0:
            return None
        self.refused.append(now)
        body = {"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "too many requests"}
        return web.json_response(body, status=429, headers={"Retry-After": str(int(wait) + 1)})

    def _answer(self, path: str, query: dict[str, str]) -> web.Response:
        if path == "jobs/runs/list":
            return web.json_response(self._list(query))
        if path == "jobs/runs/get":
            run = self.runs.get(int(query["run_id"]))
            return _missing(f"Run {query['run_id']}") if run is None else web.json_response(run)
        if path == "jobs/get":
            job_id = int(query["job_id"])
            if job_id not in self.jobs:
                return _missing(f"Job {job_id}")
            return web.json_response({"job_id": job_id, "settings": {"name": self.jobs[job_id]}})
        if path == "jobs/list":
            wanted = [
                {"job_id": job_id, "settings": {"name": name}}
                for job_id, name in self.jobs.items()
                if name.lower() == query.get("name", name).lower()
            ]
            return web.json_response({"jobs": wanted})
        return web.json_response({"error_code": "ENDPOINT_NOT_FOUND", "message": path}, status=404)

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        limit = min(int(query.get("limit", 20)) or PAGE, PAGE)
        low, high = int(query.get("start_time_from", 0)), int(query.get("start_time_to", 2**62))
        found = []
        for run in sorted(self.runs.values(), key=lambda run: (-run["start_time"], -run["run_id"])):
            active = run["state"]["life_cycle_state"] != "TERMINATED"
            if (
                low <= run["start_time"] <= high
                and ("job_id" not in query or run["job_id"] == int(query["job_id"]))
                and (query.get("active_only") != "true" or active)
                and (query.get("completed_only") != "true" or not active)
            ):
                found.append(run)
        start = 0
        if token := query.get("page_token"):
            after = tuple(int(part) for part in token.split("-"))
            start = next((n for n, run in enumerate(found) if (run["start_time"], run["run_id"]) < after), len(found))
        page = found[start : start + limit]
        if not page:
            return {"has_more": False}
        more = len(found) > start + limit
        body: dict[str, Any] = {"runs": page, "has_more": more}
        if more:
            body["next_page_token"] = f"{page[-1]['start_time']}-{page[-1]['run_id']}"
        return body


def _missing(what: str) -> web.Response:
    body = {"error_code": "INVALID_PARAMETER_VALUE", "message": f"{what} does not exist."}
    return web.json_response(body, status=400)


def answer(body: Any, status: int, **headers: str) -> Answer:
    """An answer of trouble: JSON, or text as HTML."""

    async def given(request: web.Request) -> web.StreamResponse:
        kept = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, str):
            return web.Response(text=body, status=status, content_type="text/html", headers=kept)
        return web.json_response(body, status=status, headers=kept)

    return given


async def dropped(request: web.Request) -> web.StreamResponse:
    """Closes the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut(request: web.Request) -> web.StreamResponse:
    """Announces a long body and closes in the middle of it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"runs": [')
    assert request.transport is not None
    request.transport.close()
    return response


@asynccontextmanager
async def serving(
    service: JobsService, *, port: int = 0, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[JobsService]:
    """The service on a port of this machine, a free one for 0; by TLS where a context is given."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", service.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024, ssl_context=ssl_context).start()
    service.host = f"{'https' if ssl_context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield service
    finally:
        await asyncio.wait_for(runner.cleanup(), 10)
