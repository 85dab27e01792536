"""A local deployment: N workspaces, one engine, one trigger scheduler, one store, in one asyncio process.

It is a stand-in for development and tests, not Databricks; it binds loopback only, in clear or with TLS.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import ipaddress
import json
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import USER_NAME, Engine
from databricks_bridge.local.faults import Faults
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.ports import Clock, Workspace
from databricks_bridge.local.private import make_private
from databricks_bridge.local.runs.keeper import RunKeeper
from databricks_bridge.local.runs.means import Sleep
from databricks_bridge.local.runs.trigger_port import TriggerPort
from databricks_bridge.local.server.app import create_app
from databricks_bridge.local.server.auth import credentials_of
from databricks_bridge.local.server.connections import Protocol
from databricks_bridge.local.server.job_names import run_as_name
from databricks_bridge.local.server.unity_catalog_grants import missing_privilege
from databricks_bridge.local.shares import Shares
from databricks_bridge.local.sql.model import NoSql, SqlRunner
from databricks_bridge.local.sql.statements import Statements
from databricks_bridge.local.sql.system_rows import metastore_id
from databricks_bridge.local.sql.system_tables import SystemTables
from databricks_bridge.local.store import Store
from databricks_bridge.local.tls import Certificates, certificates
from databricks_bridge.local.triggers.scheduler import TriggerScheduler
from databricks_bridge.local.triggers.switches import read_switches
from databricks_bridge.local.workspace_spec import WorkspaceSpec

log = logging.getLogger(__name__)


class DeploymentError(BridgeError):
    """The deployment cannot start; the message is one line that says why and what to do."""


@dataclass(frozen=True)
class Deployment:
    """A deployment that is up. `workspaces` by name; each has `host` and `credentials.token`.

    `ca_file` is what its clients have to trust, None without TLS.
    """

    layout: Layout
    workspaces: Mapping[str, Workspace]
    time_scale: float
    ca_file: Path | None = None

    def host(self, workspace: str) -> str:
        return self.workspaces[workspace].host

    def token(self, workspace: str) -> str:
        return self.workspaces[workspace].credentials.token


@asynccontextmanager
async def running_deployment(
    home: Path,
    workspaces: Sequence[str | WorkspaceSpec],
    *,
    engine: Engine,
    time_scale: float = 1.0,
    now: Clock = time.time,
    sleep: Sleep = asyncio.sleep,
    sql: SqlRunner | None = None,
    tls: bool = False,
) -> AsyncIterator[Deployment]:
    """Everything up, engine warmed, `deployment.json` written; and everything down again afterwards.

    `sql` runs the statements of the SQL warehouses; unless it is given the engine does, where it has SQL.
    With `tls` the hosts are https, with certificates of an authority that the home keeps.

    Raises DeploymentError when the home is in use or a port is taken, NotPrivate when it is another user's, NoTls when
    there can be no certificates.
    """
    specs = [WorkspaceSpec(item) if isinstance(item, str) else item for item in workspaces]
    layout = Layout(home)
    async with AsyncExitStack() as stack:
        stack.enter_context(_locked(layout))
        sockets = [stack.enter_context(_bound(spec)) for spec in specs]
        secure = certificates(layout.tls_root, [spec.address for spec in specs], now()) if tls else None
        store = Store(layout.store_file)
        stack.callback(store.close)
        shares = Shares(layout)
        faults, real = Faults(), now
        now = lambda: real() + faults.clock_seconds  # noqa: E731 - the one clock of everything below
        runner = sql or (engine if isinstance(engine, SqlRunner) else NoSql())
        metastores = {spec.name: spec.metastore or spec.name for spec in specs}
        if not isinstance(runner, NoSql):
            runner = SystemTables(runner, store, layout, metastores, USER_NAME, now)

        async def before_run(workspace: str) -> None:
            await shares.publish_for(metastores[workspace])

        stack.push_async_callback(engine.close)
        await engine.start()
        runs = RunKeeper(store, engine, now=now, sleep=sleep, time_scale=time_scale, before_run=before_run)
        hosted = [
            _workspace(spec, listener, secure, layout, store, runs, shares, now, time_scale, engine, runner, faults)
            for spec, listener in zip(specs, sockets, strict=True)
        ]
        for workspace in hosted:
            stack.push_async_callback(workspace.sql.close)
        if isinstance(runner, SystemTables):
            await asyncio.to_thread(runner.publish_all)
        jobs = TriggerPort(store, runs)
        scheduler = TriggerScheduler(
            layout,
            jobs,
            now=now,
            sleep=sleep,
            time_scale=time_scale,
            switches=lambda: read_switches(store),
            missing_privilege=lambda job, kind, name: missing_privilege(
                runs.workspaces[job.workspace], kind, name, run_as_name(runs.workspaces[job.workspace], job.settings)
            ),
        )
        stack.push_async_callback(runs.close)
        runs.open(hosted)
        for loop in (runs.run_forever, scheduler.run_forever, shares.run_forever):
            stack.push_async_callback(_cancelled, asyncio.create_task(_never_ending(loop)))
        await stack.enter_async_context(_served(hosted, sockets, secure))
        by_name = {workspace.name: workspace for workspace in hosted}
        deployment = Deployment(layout, by_name, time_scale, secure.ca_file if secure else None)
        stack.enter_context(_announced(deployment))
        yield deployment


@contextmanager
def deployment_in_thread(home: Path, workspaces: Sequence[str | WorkspaceSpec], **options: Any) -> Iterator[Deployment]:
    """The same for code that blocks, such as the official SDK: the deployment lives in a thread of its own.

    Takes the options of `running_deployment` and raises what it raises.
    """
    ready: Future[tuple[Deployment, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def live() -> None:
        async with running_deployment(home, workspaces, **options) as deployment:
            stop = asyncio.Event()
            ready.set_result((deployment, asyncio.get_running_loop(), stop))
            await stop.wait()

    with ThreadPoolExecutor(1, thread_name_prefix="local deployment") as thread:
        running = thread.submit(lambda: asyncio.run(live()))
        either: list[Future[Any]] = [ready, running]
        wait(either, return_when=FIRST_COMPLETED)
        if not ready.done():
            running.result()
        deployment, loop, stop = ready.result()
        try:
            yield deployment
        finally:
            loop.call_soon_threadsafe(stop.set)
            running.result()


def _workspace(
    spec: WorkspaceSpec,
    listener: socket.socket,
    secure: Certificates | None,
    layout: Layout,
    store: Store,
    runs: RunKeeper,
    shares: Shares,
    now: Clock,
    time_scale: float,
    engine: Engine,
    sql: SqlRunner,
    faults: Faults,
) -> Workspace:
    metastore = spec.metastore or spec.name
    workspace_id, credentials = credentials_of(store, spec.name)
    for folder in (
        layout.metastore_root(metastore),
        layout.volumes_root(metastore),
        layout.workspace_files(spec.name),
    ):
        folder.mkdir(parents=True, exist_ok=True)
    return Workspace(
        name=spec.name,
        workspace_id=workspace_id,
        metastore=metastore,
        metastore_id=metastore_id(metastore),
        host=f"{'https' if secure else 'http'}://{spec.address}:{listener.getsockname()[1]}",
        user_name=USER_NAME,
        layout=layout,
        now=now,
        time_scale=time_scale,
        engine="instant" if isinstance(engine, InstantEngine) else "spark",
        credentials=credentials,
        store=store,
        runs=runs,
        shares=shares,
        sql=Statements(sql, spec.name),
        faults=faults,
        ca_file=secure.ca_file if secure else None,
    )


@contextmanager
def _locked(layout: Layout) -> Iterator[None]:
    """Only one deployment may own a home. The system drops the lock with the process, however that ends."""
    make_private(layout.home)
    path = layout.home / "deployment.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            pid = file.read().strip() or "unknown"
            raise DeploymentError(
                f"{layout.home} is in use by a deployment with pid {pid}; stop that one, or choose another home"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        # One that was killed leaves its file behind; whoever waits for this start must not take it for ours.
        layout.deployment_file.unlink(missing_ok=True)
        yield
        file.truncate(0)


@contextmanager
def _bound(spec: WorkspaceSpec) -> Iterator[socket.socket]:
    if not _is_loopback(spec.address):
        raise DeploymentError(
            f"the address {spec.address!r} of the workspace {spec.name} is not loopback; give one such as 127.0.0.1 or "
            "127.0.0.2"
        )
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((spec.address, spec.port))
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise DeploymentError(
                f"port {spec.port} for the workspace {spec.name} {reason}; stop what listens there, or give another --port"
            ) from None
        listener.listen()
        yield listener


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.IPv4Address(address).is_loopback
    except ValueError:
        return False


class _Server(uvicorn.Server):
    """Leaves signals to the process that hosts all the servers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _served(
    workspaces: Sequence[Workspace], listeners: Sequence[socket.socket], secure: Certificates | None
) -> AsyncIterator[None]:
    servers = [_server(workspace, secure) for workspace in workspaces]
    serving = [
        asyncio.create_task(server.serve(sockets=[listener]), name=f"server of {workspace.name}")
        for server, listener, workspace in zip(servers, listeners, workspaces, strict=True)
    ]
    try:
        while not all(server.started for server in servers):
            for task in serving:
                if task.done():
                    task.result()
                    raise DeploymentError(f"the {task.get_name()} did not start")
            await asyncio.sleep(0.005)
        yield
    finally:
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*serving)


def _server(workspace: Workspace, secure: Certificates | None) -> _Server:
    config = uvicorn.Config(
        create_app(workspace),
        http=Protocol,
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=2,
        ssl_certfile=secure.server_file if secure else None,
    )
    return _Server(config)


@contextmanager
def _announced(deployment: Deployment) -> Iterator[None]:
    """`deployment.json` is there exactly while the deployment is ready; readable by its owner alone."""
    path = deployment.layout.deployment_file
    workspaces = {
        name: {
            "host": workspace.host,
            "token": workspace.credentials.token,
            "client_id": workspace.credentials.client_id,
            "client_secret": workspace.credentials.client_secret,
            "workspace_id": workspace.workspace_id,
            "metastore": workspace.metastore,
        }
        for name, workspace in deployment.workspaces.items()
    }
    body = {
        "pid": os.getpid(),
        "time_scale": deployment.time_scale,
        "ca_file": str(deployment.ca_file) if deployment.ca_file else None,
        "workspaces": workspaces,
    }
    draft = path.with_suffix(".json.new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(body, file, indent=2)
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


async def _never_ending(loop: Callable[[], Awaitable[None]]) -> None:
    # Given the function and not its coroutine: a task that is cancelled before its first step would never await that.
    try:
        await loop()
    except Exception:
        log.exception("a loop of the local deployment ended; its part of the deployment has stopped")
        raise


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
