"""The local workspace that the schedules share, one after the other, and the persons, triggers and writers around it."""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.request
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from databricks_bridge.local.deployment import Deployment, running_deployment
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import Engine, NotebookResult, NotebookRun
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.runs.model import SLOT_PHASES
from databricks_bridge.local.runs.records import get_attempt, runs_in
from faults.checker import GoldRow
from faults.processes import Clock
from faults.proxy import Proxy, running_proxy

WORKSPACE = "ops"
EPOCH_SECONDS = 1_780_000_000.0
TOKENS_KEPT_SECONDS = 24 * 3600
NEVER_SECONDS = 10**9
OK = NotebookResult(True, None, None, None)
ENDINGS = {
    "ok": OK,
    "run hollow": OK,
    "run fails": NotebookResult(False, None, "ValueError: bad row", "Traceback: ValueError: bad row"),
    "reader behind": NotebookResult(False, None, "BridgeReaderBehind: the share lags", "Traceback: BridgeReaderBehind"),
}
Json = dict[str, Any]


@dataclass
class Lab:
    """A deployment with the world's `clock`, a proxy before it, and all notebooks that are at work, by task run id."""

    clock: Clock = field(default_factory=lambda: Clock(EPOCH_SECONDS))
    working: dict[int, tuple[int, asyncio.Future[str]]] = field(default_factory=dict)
    settle_seconds: float = 30.0
    settle_pause: float = 0.0
    _deployment: Deployment | None = None
    _proxy: Proxy | None = None

    @property
    def deployment(self) -> Deployment:
        assert self._deployment is not None
        return self._deployment

    @property
    def proxy(self) -> Proxy:
        assert self._proxy is not None
        return self._proxy

    async def notebook(self, request: NotebookRun) -> NotebookResult:
        """A notebook: it works until it is told how it ends."""
        return ENDINGS[await self.told(request)]

    async def told(self, request: NotebookRun) -> str:
        """How this notebook is to end, once the schedule says so."""
        attempt = get_attempt(self.deployment.workspaces[WORKSPACE].store, request.run_id)
        assert attempt is not None
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.working[request.run_id] = attempt.job_run_id, future
        return await future

    async def end_run(self, task_run_id: int, how: str) -> int:
        """Let a notebook end; the id of its job run. Returns when the workspace has seen it."""
        run_id, future = self.working.pop(task_run_id)
        future.set_result(how)
        await self.settled()
        return run_id

    async def settled(self) -> None:
        """Wait until every run that has a slot is at work in its notebook."""
        store = self.deployment.workspaces[WORKSPACE].store
        late = time.monotonic() + self.settle_seconds
        while len(runs_in(store, SLOT_PHASES)) != len(self.working):
            if time.monotonic() > late:
                raise TimeoutError("the local workspace did not start or end a run in time")
            await asyncio.sleep(self.settle_pause)

    async def ask(self, path: str, body: Json | None = None) -> Json:
        """A call by plain HTTP, past the proxy and past all our code."""
        token = self.deployment.token(WORKSPACE)
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.deployment.host(WORKSPACE)}/api/{path}"
        request = urllib.request.Request(url, data, {"Authorization": f"Bearer {token}"})

        def call() -> Json:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found: Json = json.load(answer)
                return found

        return await asyncio.to_thread(call)

    async def create_job(self, name: str, parameters: list[str], slots: int) -> int:
        tasks = [{"task_key": "main", "notebook_task": {"notebook_path": "/notebook"}}]
        declared = [{"name": one, "default": ""} for one in parameters]
        settings = {"name": name, "tasks": tasks, "parameters": declared, "max_concurrent_runs": slots}
        return int((await self.ask("2.2/jobs/create", settings))["job_id"])

    async def set_slots(self, job_id: int, slots: int) -> None:
        """How many runs the job may have at once; with none, each new one is skipped."""
        await self.ask("2.2/jobs/update", {"job_id": job_id, "new_settings": {"max_concurrent_runs": slots}})

    async def start_foreign(self, job_id: int, trigger: str) -> int:
        """A run that a person (ONE_TIME) or a trigger started."""
        workspace = self.deployment.workspaces[WORKSPACE]
        if trigger == "ONE_TIME":
            run_id = int((await self.ask("2.2/jobs/run-now", {"job_id": job_id, "queue": {"enabled": True}}))["run_id"])
        else:
            job = workspace.store.job(job_id)
            assert job is not None
            order = Order(job_id=job_id, settings=job.settings, trigger=trigger, queue=True)
            run_id = workspace.runs.create(workspace, order).run_id
        await self.settled()
        return run_id

    async def repair(self, run_id: int) -> None:
        """A person runs the failed task again."""
        history = (await self.ask(f"2.2/jobs/runs/get?run_id={run_id}&include_history=true")).get("repair_history", [])
        last = {"latest_repair_id": history[-1]["id"]} if len(history) > 1 else {}
        await self.ask("2.2/jobs/runs/repair", {"run_id": run_id, "rerun_tasks": ["main"], **last})
        await self.settled()

    async def runs(self, job_id: int, with_history: set[int]) -> list[Json]:
        """The run list of a job, oldest first; those in `with_history` with their repairs."""
        found: list[Json] = []
        page = f"2.2/jobs/runs/list?job_id={job_id}&limit=24"
        token = ""
        while True:
            answer = await self.ask(page + token)
            found += answer.get("runs", [])
            if "next_page_token" not in answer:
                break
            token = f"&page_token={answer['next_page_token']}"
        for at, run in enumerate(found):
            if run["run_id"] in with_history:
                found[at] = await self.ask(f"2.2/jobs/runs/get?run_id={run['run_id']}&include_history=true")
        return found[::-1]

    def forget_tokens(self) -> None:
        """The workspace no longer knows the tokens of runs that started more than a day ago."""
        before = int((self.clock.seconds - TOKENS_KEPT_SECONDS) * 1000)
        with self.deployment.workspaces[WORKSPACE].store.transaction() as db:
            db.execute(
                "DELETE FROM run_tokens WHERE run_id IN (SELECT run_id FROM runs WHERE start_time < ?)", (before,)
            )

    def gold_of(self, name: str) -> list[GoldRow] | None:
        """The gold table of a subscription, None where notebooks write nothing."""
        return None

    def rows_of(self, table: str) -> list[int]:
        """All rows of a source, where it has any."""
        return []

    def log_of(self, table: str) -> Path:
        return self.deployment.layout.table_path(WORKSPACE, table) / "_delta_log"

    def commit(self, table: str, version: int, kind: str) -> None:
        """One more commit of a table's log, as Delta writes it: CREATE, WRITE or OPTIMIZE."""
        operation = "CREATE TABLE" if kind == "CREATE" else kind
        actions: list[Json] = [{"commitInfo": {"operation": operation, "operationParameters": {}}}]
        if version == 0:
            folder = self.log_of(table)
            folder.mkdir(parents=True)
            column = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
            actions += [
                {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
                {
                    "metaData": {
                        "id": f"00000000-0000-4000-8000-{zlib.crc32(table.encode()):012d}",
                        "format": {"provider": "parquet", "options": {}},
                        "schemaString": json.dumps({"type": "struct", "fields": [column]}),
                        "partitionColumns": [],
                        "configuration": {},
                    }
                },
            ]
        if kind != "CREATE":
            add = {"path": f"part-{version}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0}
            actions.append({"add": {**add, "dataChange": kind == "WRITE"}})
        file = self.log_of(table) / f"{version:020d}.json"
        draft = file.with_suffix(".draft")
        draft.write_text("".join(json.dumps(action) + "\n" for action in actions))
        os.utime(draft, (self.clock.seconds, self.clock.seconds))
        draft.replace(file)


async def _sleep(seconds: float) -> None:
    """The workspace's own long waits (the age of queued runs) are no part of any schedule."""
    await asyncio.sleep(seconds if seconds < 30 else NEVER_SECONDS)


@asynccontextmanager
async def running_lab(
    home: Path, lab: Lab | None = None, engine: Engine | None = None, notebook: str = "# Databricks notebook source\n"
) -> AsyncIterator[Lab]:
    """A lab in this folder, ready. Its notebooks are instant, unless another lab and engine are given."""
    lab = lab or Lab()
    engine = engine or InstantEngine(lab.notebook)
    async with running_deployment(home, [WORKSPACE], engine=engine, now=lab.clock.now, sleep=_sleep) as deployment:
        lab._deployment = deployment
        (deployment.layout.workspace_files(WORKSPACE) / "notebook.py").write_text(notebook)
        at = urlsplit(deployment.host(WORKSPACE))
        proxy = Proxy((str(at.hostname), int(at.port or 0)), lambda: None, lambda: 1)
        async with running_proxy(proxy):
            lab._proxy = proxy
            yield lab
