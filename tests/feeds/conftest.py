"""A real local deployment over real HTTP, with the instant engine in the place of Spark, and one table in `ops`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core.claims import Plan
from databricks_bridge.core.parameter_names import declarable_names
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.record import Record, Target
from databricks_bridge.core.sources import DeltaTable, Start
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.feeds.driver import Driver
from databricks_bridge.feeds.look import Looker
from databricks_bridge.ledgers.memory import MemoryLedger
from databricks_bridge.ledgers.protocol import Ledger
from databricks_bridge.local.deployment import Deployment, running_deployment
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.shares import Share
from databricks_bridge.workspace.client import Workspace

TABLE = "main.silver.flights"
SOURCE = DeltaTable(TABLE, "ops", read_as="ops_share.silver.flights")
OK = NotebookResult(True, None, None, None)


def failure(error: str) -> NotebookResult:
    return NotebookResult(False, None, error, f"Traceback: {error}")


@dataclass
class Notebooks:
    """What the notebooks answer: the scripted answers in turn, then success. Each run's parameters are kept."""

    answers: list[NotebookResult] = field(default_factory=list)
    runs: list[dict[str, str]] = field(default_factory=list)

    def __call__(self, request: NotebookRun) -> NotebookResult:
        self.runs.append(request.parameters)
        return self.answers.pop(0) if self.answers else OK


@dataclass
class Lab:
    """The deployment, and what a consumer in it needs."""

    deployment: Deployment
    notebooks: Notebooks
    analytics: Workspace
    looker: Looker
    job_id: int = 0
    ledger: Ledger = field(default_factory=MemoryLedger)

    @asynccontextmanager
    async def new_process(self) -> AsyncIterator[None]:
        """Look with nothing in memory, as each try of a task does."""
        before = self.looker
        async with Looker(before.open_workspace) as self.looker:
            yield
        self.looker = before

    def commit(self, version: int) -> None:
        """One more commit of the table's log, as Delta writes it."""
        folder = self.deployment.layout.table_path("ops", TABLE) / "_delta_log"
        folder.mkdir(parents=True, exist_ok=True)
        actions: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE"}}]
        if version == 0:
            column = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
            schema = json.dumps({"type": "struct", "fields": [column]})
            actions += [
                {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
                {
                    "metaData": {
                        "id": "7e6cf1b4-0000-4000-8000-000000000001",
                        "format": {"provider": "parquet", "options": {}},
                        "schemaString": schema,
                        "partitionColumns": [],
                        "configuration": {},
                    }
                },
            ]
        path = f"part-{version}.parquet"
        actions.append(
            {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}}
        )
        (folder / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))

    async def create_job(self, name: str, parameters: list[str], **settings: Any) -> int:
        notebook = self.deployment.layout.workspace_files("analytics") / f"{name}.py"
        notebook.write_text("# Databricks notebook source\n")
        tasks = [{"task_key": "main", "notebook_task": {"notebook_path": f"/{name}"}}]
        declared = [{"name": one, "default": ""} for one in parameters]
        body = {"name": name, "tasks": tasks, "parameters": declared, **settings}
        return int((await self.analytics.post("/api/2.2/jobs/create", body, safe=False))["job_id"])

    async def plan(self, *, start: Start = "earliest", **changes: Any) -> Plan:
        if not self.job_id:
            self.job_id = await self.create_job("gold", sorted(declarable_names([SOURCE], ["region"])))
        target = Target(self.analytics.host, await self.analytics.workspace_id(), self.job_id)
        spec = SubscriptionSpec("delays", (SOURCE,), start, Policy())
        return Plan(spec, target, {"region": "NY"}, **({"pause": timedelta(0)} | changes))

    async def driver(self, *, kind: type[Driver] = Driver, plan: Plan | None = None, **changes: Any) -> Driver:
        options: dict[str, Any] = {"poll_interval": timedelta(milliseconds=20)} | changes
        return kind(plan or await self.plan(), self.ledger, self.looker, self.analytics, **options)

    async def record(self) -> Record:
        record = await self.ledger.read()
        assert record is not None
        return record

    async def runs(self) -> list[dict[str, Any]]:
        return [run async for run in self.analytics.list_runs(job_id=self.job_id)]


Fresh = Callable[[], Ledger]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    notebooks = Notebooks()
    async with running_deployment(tmp_path, ["ops", "analytics"], engine=InstantEngine(notebooks)) as deployment:

        async def open_workspace(name: str) -> Workspace:
            async def headers() -> dict[str, str]:
                return {"Authorization": f"Bearer {deployment.token(name)}"}

            return Workspace(deployment.host(name), headers)

        async with Looker(open_workspace) as looker:
            made = Lab(deployment, notebooks, await looker.workspace("analytics"), looker)
            made.commit(0)
            deployment.workspaces["analytics"].shares.put(Share("analytics", "ops_share", "ops", "main", ("silver",)))
            yield made
