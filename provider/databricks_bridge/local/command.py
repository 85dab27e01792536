"""`python -m databricks_bridge.local`: a deployment in the foreground until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.deployment import Deployment, DeploymentError, running_deployment
from databricks_bridge.local.engine.model import Engine, NotebookResult, NotebookRun
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.managing import DEFAULT_FILE, ready_file
from databricks_bridge.local.private import UMASK
from databricks_bridge.local.sql.model import SqlRequest, SqlRows
from databricks_bridge.local.workspace_spec import WorkspaceSpec

if TYPE_CHECKING:
    from databricks_bridge.local.engine.spark import SparkEngine
    from databricks_bridge.local.lab_file import Lab

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
REFUSED = 2
"""Exit code for what the caller has to change."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a deployment with the Spark engine; the exit code. 0 after SIGINT or SIGTERM, 2 for what cannot work."""
    try:
        arguments = _parser().parse_args(argv)
        plan = _plan(arguments)
        if arguments.detach:
            from databricks_bridge.local.detaching import detach

            return detach(plan.home, _again(arguments))
        print("Starting a local workspace deployment. It is a stand-in for tests, not Databricks.", flush=True)
        before = os.umask(UMASK)
        try:
            return asyncio.run(_run(plan, _Spark(Layout(plan.home).engine_root)))
        finally:
            os.umask(before)
    except BridgeError as error:
        print(f"databricks-bridge local: {error}", file=sys.stderr)
        return REFUSED


@dataclass(frozen=True)
class _Plan:
    home: Path
    specs: list[WorkspaceSpec]
    time_scale: float
    lab: Lab | None
    tls: bool


async def _run(plan: _Plan, engine: Engine) -> int:
    task = asyncio.current_task()
    assert task is not None, "runs inside asyncio.run"
    asked: list[int] = []

    def stop(number: int) -> None:
        # Once: a second cancel would cut the clean-up short and leave the JVM behind.
        if not asked:
            print("Stopping: notebooks, then Spark.", flush=True)
            task.cancel()
        asked.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        async with running_deployment(
            plan.home, plan.specs, engine=engine, time_scale=plan.time_scale, tls=plan.tls
        ) as deployment:
            if plan.lab is not None:
                await _furnish(plan.lab, deployment)
            _say(deployment)
            with _ready(plan):
                await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("Stopped.", flush=True)
    return 0


async def _furnish(lab: Lab, deployment: Deployment) -> None:
    """In a thread, over HTTP: the deployment is its own client. It watches for the end, since a thread cannot be stopped."""
    from databricks_bridge.local.furnish import furnish
    from databricks_bridge.local.rest import Rest

    rests = {
        name: Rest(name, one.host, one.credentials.token, one.ca_file) for name, one in deployment.workspaces.items()
    }
    ended = threading.Event()

    def sleep(seconds: float) -> None:
        if ended.wait(seconds):
            raise DeploymentError("the deployment was stopped while it was being furnished")

    try:
        await asyncio.to_thread(furnish, lab, rests, lambda line: print(f"  {line}", flush=True), sleep)
    finally:
        ended.set()


@contextmanager
def _ready(plan: _Plan) -> Iterator[None]:
    """The file that says so is there exactly while it is true."""
    file = ready_file(plan.home)
    file.write_text(json.dumps({"pid": os.getpid(), "file": str(plan.lab.file) if plan.lab else None}))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


class _Spark:
    """The Spark engine, whose jars are made ready when it starts: after ports and home have been found free."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._engine: SparkEngine | None = None

    async def start(self) -> None:
        from databricks_bridge.local.engine.jars import prepare
        from databricks_bridge.local.engine.spark import SparkEngine

        jars = await asyncio.to_thread(prepare, lambda line: print(f"  {line}", flush=True))
        print("  starting Spark, which takes some seconds", flush=True)
        self._engine = SparkEngine(self._root, jars)
        await self._engine.start()

    async def run(self, request: NotebookRun) -> NotebookResult:
        assert self._engine is not None, "the deployment starts its engine first"
        return await self._engine.run(request)

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        assert self._engine is not None, "the deployment starts its engine first"
        return await self._engine.run_sql(request)

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()


def _say(deployment: Deployment) -> None:
    for name, workspace in deployment.workspaces.items():
        print(f"  {name}: {workspace.host} (local, not Databricks), metastore {workspace.metastore}", flush=True)
    rights = (
        f"  notebooks run as {getpass.getuser()}, with all rights of that user on this machine: there is no sandbox"
    )
    print(rights, flush=True)
    if deployment.time_scale != 1:
        print(f"  time runs {1 / deployment.time_scale:g} times faster here", flush=True)
    if deployment.ca_file:
        print(f"  TLS: its clients have to trust {deployment.ca_file}", flush=True)
    ready = f"Ready. Tokens are in {deployment.layout.deployment_file}."
    if sys.stdout.isatty():
        print(f"  in a browser: databricks-bridge local links --home {deployment.layout.home}", flush=True)
        ready += " Stop with Ctrl-C."
    print(ready, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="databricks-bridge local up",
        description="Local workspaces for development and tests. A stand-in, not Databricks. Say what to host by a file, "
        "or by options; without either, lab.yaml here is the file.",
    )
    parser.add_argument("--file", help="YAML: workspaces, catalogs, jobs or bundles, shares, seed files, waves")
    parser.add_argument("--home", help="folder that keeps everything; made if it is not there")
    parser.add_argument("--workspace", action="append", default=[], metavar="NAME", help="may be given repeatedly")
    parser.add_argument("--metastore", action="append", default=[], metavar="NAME=METASTORE", help="default: its own")
    parser.add_argument(
        "--port", action="append", default=[], metavar="NAME=PORT", help="default: the file's, else any free port"
    )
    parser.add_argument(
        "--time-scale", metavar="F", help="factor on Databricks' durations, such as 0.05 (default: the file's, else 1)"
    )
    parser.add_argument("--tls", action="store_true", help="https, with a certificate authority that the home keeps")
    parser.add_argument("--detach", action="store_true", help="run in the background; return when it is ready")
    return parser


def _plan(arguments: argparse.Namespace) -> _Plan:
    scale = None if arguments.time_scale is None else _time_scale(arguments.time_scale)
    file = arguments.file
    if file is None and not arguments.workspace and Path(DEFAULT_FILE).exists():
        file = DEFAULT_FILE
    if file is None:
        if not arguments.home or not arguments.workspace:
            raise DeploymentError(f"give --home and --workspace, or --file (there is no {DEFAULT_FILE} here)")
        return _Plan(Path(arguments.home).absolute(), _specs(arguments), scale or 1.0, None, arguments.tls)
    if arguments.workspace or arguments.metastore:
        raise DeploymentError(f"--workspace and --metastore are said by the file, {file}; leave them out")
    from databricks_bridge.local.lab_file import read_lab

    lab = read_lab(Path(file))
    home = Path(arguments.home).absolute() if arguments.home else lab.home
    ports = _pairs(arguments.port, [one.spec.name for one in lab.workspaces], "--port")
    specs = [_moved(one.spec, ports) for one in lab.workspaces]
    return _Plan(home, specs, scale or lab.time_scale, lab, arguments.tls or lab.tls)


def _again(arguments: argparse.Namespace) -> list[str]:
    """The same command line without --detach."""
    words = ["--tls"] if arguments.tls else []
    for option in ("file", "home", "workspace", "metastore", "port", "time_scale"):
        values = getattr(arguments, option) or []
        for value in [values] if isinstance(values, str) else values:
            words += [f"--{option.replace('_', '-')}", value]
    return words


def _specs(arguments: argparse.Namespace) -> list[WorkspaceSpec]:
    names: list[str] = arguments.workspace
    for name in names:
        if not _NAME.fullmatch(name):
            raise DeploymentError(f"workspace name {name!r} may hold lower-case letters, digits, '-' and '_' only")
        if names.count(name) > 1:
            raise DeploymentError(f"workspace {name} is given twice")
    metastores = _pairs(arguments.metastore, names, "--metastore")
    ports = _pairs(arguments.port, names, "--port")
    for value in metastores.values():
        if not _NAME.fullmatch(value):
            raise DeploymentError(f"metastore name {value!r} may hold lower-case letters, digits, '-' and '_' only")
    return [WorkspaceSpec(name, metastores.get(name), _port(name, ports.get(name, "0"))) for name in names]


def _moved(spec: WorkspaceSpec, ports: Mapping[str, str]) -> WorkspaceSpec:
    return replace(spec, port=_port(spec.name, ports[spec.name])) if spec.name in ports else spec


def _pairs(given: list[str], names: list[str], option: str) -> dict[str, str]:
    pairs = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not value or name not in names:
            raise DeploymentError(f"{option} {item!r}: give NAME=VALUE with one of the workspaces {', '.join(names)}")
        pairs[name] = value
    return pairs


def _port(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5) or int(text) > 65535:
        raise DeploymentError(f"--port {name}={text}: a port is a number from 0 to 65535")
    return int(text)


def _time_scale(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise DeploymentError(f"--time-scale {text}: give a number above 0 and at most 1")
    return value
