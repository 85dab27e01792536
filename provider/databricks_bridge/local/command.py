"""`python -m databricks_bridge.local`: a deployment in the foreground until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.deployment import Deployment, DeploymentError, WorkspaceSpec, running_deployment
from databricks_bridge.local.engine.model import Engine, NotebookResult, NotebookRun
from databricks_bridge.local.layout import Layout

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
REFUSED = 2
"""Exit code for what the caller has to change."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a deployment with the Spark engine; the exit code. 0 after SIGINT or SIGTERM, 2 for what cannot work."""
    try:
        arguments = _parser().parse_args(argv)
        specs = _specs(arguments)
        scale = _time_scale(arguments.time_scale)
        home = Path(arguments.home).absolute()
        print("Starting a local workspace deployment. It is a stand-in for tests, not Databricks.", flush=True)
        return asyncio.run(_run(home, specs, _Spark(Layout(home).engine_root), scale))
    except BridgeError as error:
        print(f"databricks-bridge local: {error}", file=sys.stderr)
        return REFUSED


async def _run(home: Path, specs: list[WorkspaceSpec], engine: Engine, time_scale: float) -> int:
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
        async with running_deployment(home, specs, engine=engine, time_scale=time_scale) as deployment:
            _say(deployment)
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("Stopped.", flush=True)
    return 0


class _Spark:
    """The Spark engine, whose jars are made ready when it starts: after ports and home have been found free."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._engine: Engine | None = None

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

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()


def _say(deployment: Deployment) -> None:
    for name, workspace in deployment.workspaces.items():
        print(f"  {name}: {workspace.host} (local, not Databricks), metastore {workspace.metastore}", flush=True)
    if deployment.time_scale != 1:
        print(f"  time runs {1 / deployment.time_scale:g} times faster here", flush=True)
    print(f"Ready. Tokens are in {deployment.layout.deployment_file}. Stop with Ctrl-C.", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="databricks-bridge local up",
        description="Local workspaces for development and tests. A stand-in, not Databricks.",
    )
    parser.add_argument("--home", required=True, help="folder that keeps everything; made if it is not there")
    parser.add_argument("--workspace", action="append", required=True, metavar="NAME", help="may be given repeatedly")
    parser.add_argument("--metastore", action="append", default=[], metavar="NAME=METASTORE", help="default: its own")
    parser.add_argument("--port", action="append", default=[], metavar="NAME=PORT", help="default: any free port")
    parser.add_argument(
        "--time-scale", default="1", metavar="F", help="factor on Databricks' durations, such as 0.05 (default 1)"
    )
    return parser


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


def _pairs(given: list[str], names: list[str], option: str) -> dict[str, str]:
    pairs = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not value or name not in names:
            raise DeploymentError(f"{option} {item!r}: give NAME=VALUE with one of the workspaces {', '.join(names)}")
        pairs[name] = value
    return pairs


def _port(name: str, text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
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
