"""What tests of local deployments share. Notebooks are Python functions here; all else is real."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.ports import Clock, Workspace
from databricks_bridge.local.runs.keeper import RunKeeper
from databricks_bridge.local.runs.means import BeforeRun, Sleep
from databricks_bridge.local.server.auth import Credentials
from databricks_bridge.local.shares import Shares
from databricks_bridge.local.store import Store

OK = NotebookResult(succeeded=True, exit_value=None, error=None, error_trace=None)


def failure(error: str) -> NotebookResult:
    return NotebookResult(succeeded=False, exit_value=None, error=error, error_trace=f"Traceback ...\n{error}")


Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


@dataclass
class Notebooks:
    """What the notebooks do: by file name, a function; without one a notebook succeeds at once.

    `block(name)` makes it run until `unblock(name)`; `seen` holds every run that the engine was given, `killed` those
    that were cancelled.
    """

    functions: dict[str, Callable[[NotebookRun], NotebookResult]] = field(default_factory=dict)
    seen: list[NotebookRun] = field(default_factory=list)
    killed: list[NotebookRun] = field(default_factory=list)
    _waiters: dict[str, list[Waiter]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def block(self, name: str) -> None:
        self._waiters[name] = []

    def unblock(self, name: str) -> None:
        with self._lock:
            for loop, waiter in self._waiters.pop(name):
                loop.call_soon_threadsafe(waiter.set_result, None)

    async def run(self, request: NotebookRun) -> NotebookResult:
        self.seen.append(request)
        name = request.notebook.stem
        with self._lock:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            if name in self._waiters:
                self._waiters[name].append((loop, waiter))
            else:
                waiter.set_result(None)
        try:
            await waiter
        except asyncio.CancelledError:
            self.killed.append(request)
            raise
        function = self.functions.get(name)
        return function(request) if function else OK

    def runs_of(self, name: str) -> list[NotebookRun]:
        return [request for request in self.seen if request.notebook.stem == name]


async def nothing(workspace: str) -> None:
    """There are no shares to publish."""


def bare_workspace(
    home: Path,
    notebooks: Notebooks,
    *,
    now: Clock = time.time,
    sleep: Sleep = asyncio.sleep,
    time_scale: float = 1.0,
    before_run: BeforeRun = nothing,
) -> Workspace:
    """The workspace ops without server and scheduler, with a notebook `main`. Close its `runs`, then its `store`."""
    layout = Layout(home)
    store = Store(layout.store_file)
    engine = InstantEngine(notebooks.run)
    runs = RunKeeper(store, engine, now=now, sleep=sleep, time_scale=time_scale, before_run=before_run)
    workspace = Workspace(
        name="ops",
        workspace_id="1001",
        metastore="ops",
        metastore_id="",
        host="http://127.0.0.1:1",
        user_name="tester",
        layout=layout,
        now=now,
        time_scale=time_scale,
        engine="instant",
        credentials=Credentials("", "", ""),
        store=store,
        runs=runs,
        shares=Shares(layout),
    )
    runs.open([workspace])
    file = layout.workspace_files("ops") / "Shared" / "main.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return workspace


def write_notebook(deployment: Deployment, workspace: str, name: str) -> str:
    """A notebook file; its path for notebook_task."""
    folder = deployment.layout.workspace_files(workspace) / "Shared"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text("# Databricks notebook source\n")
    return f"/Shared/{name}"


def eventually(look: Callable[[], Any], *, seconds: float = 20) -> Any:
    """What `look` gives as soon as it is true. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        time.sleep(0.01)
    return found


def client(deployment: Deployment, workspace: str) -> Any:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.core import Config

    config = Config(
        host=deployment.host(workspace),
        token=deployment.token(workspace),
        auth_type="pat",
        retry_timeout_seconds=5,
        http_timeout_seconds=20,
    )
    return WorkspaceClient(config=config)


@dataclass(frozen=True)
class Api:
    """Raw JSON of one workspace, through the official SDK's HTTP client."""

    workspace_client: Any

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return dict(self.workspace_client.api_client.do("GET", f"/api/2.2/jobs/{path}", query=query))

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        return dict(self.workspace_client.api_client.do("POST", f"/api/2.2/jobs/{path}", body=body) or {})

    def run(self, run_id: int, **query: Any) -> dict[str, Any]:
        return self.get("runs/get", run_id=run_id, **query)

    def ended(self, run_id: int, **query: Any) -> dict[str, Any]:
        """The run once it has ended."""
        eventually(lambda: self.run(run_id)["status"]["state"] == "TERMINATED")
        return self.run(run_id, **query)

    def running(self, run_id: int) -> dict[str, Any]:
        eventually(lambda: self.run(run_id)["status"]["state"] == "RUNNING")
        return self.run(run_id)
