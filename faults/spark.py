"""The same schedules, shorter, with real notebook runs on the warm engine, real Delta tables and real commits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.jars import prepare
from databricks_bridge.local.engine.model import Engine, NotebookResult, NotebookRun
from databricks_bridge.local.engine.spark import SparkEngine
from faults.checker import ROWS_OF_A_VERSION, GoldRow
from faults.lab import ENDINGS, WORKSPACE, Lab, running_lab
from faults.schedule import Options

NOTEBOOK = Path(__file__).with_name("consume.notebook")
SETTINGS = {"delta.enableChangeDataFeed": "true", "delta.deletedFileRetentionDuration": "interval 5000 days"}
"""Delta compares the times of commits, which are the lab's, with the machine's own clock."""
MOVES = 22
MOST_FAULTY_MOVES = 40
TARGETS = 3


def shorter(drawn: Options) -> Options:
    """A real run takes seconds: fewer moves, one table, and fewer things aimed at."""
    return replace(drawn, moves=MOVES, tables=1, cap=None, targets=drawn.targets[:TARGETS])


@dataclass
class SparkLab(Lab):
    """A lab whose notebooks stand still until they are told how to end, and then do it on Spark."""

    engine: Engine | None = None
    settle_seconds: float = 180.0
    settle_pause: float = 0.02

    async def notebook(self, request: NotebookRun) -> NotebookResult:
        how = await self.told(request)
        if not request.parameters.get("bridge_subscription"):
            return ENDINGS[how]
        assert self.engine is not None
        if how == "run fails":
            how += " late" if request.run_id % 2 else " early"
        given = {**request.parameters, "how_it_ends": how}
        return await self.engine.run(replace(request, parameters=given))

    def gold_of(self, name: str) -> list[GoldRow] | None:
        path = self.deployment.layout.table_path(WORKSPACE, f"main.gold.{name}")
        return [GoldRow(row["n"], row["alias"], row["start"]) for row in _rows(path)]

    def rows_of(self, table: str) -> list[int]:
        return [row["n"] for row in _rows(self.deployment.layout.table_path(WORKSPACE, table))]

    def commit(self, table: str, version: int, kind: str) -> None:
        """One more real commit. An OPTIMIZE that finds nothing to do commits a property instead."""
        import pyarrow as pa
        from deltalake import DeltaTable, write_deltalake

        path = self.deployment.layout.table_path(WORKSPACE, table)
        rows = range(version * ROWS_OF_A_VERSION, version * ROWS_OF_A_VERSION + 1 + version % 3)
        data = pa.table({"n": pa.array([] if kind == "CREATE" else list(rows), pa.int64())})
        if version == 0 or kind == "WRITE":
            write_deltalake(path, data, mode="append", configuration=SETTINGS)
        else:
            found = DeltaTable(path)
            found.optimize.compact()
            if found.version() < version:
                found.alter.set_table_properties({"delta.logRetentionDuration": f"interval {5000 + version} days"})
        file = self.log_of(table) / f"{version:020d}.json"
        assert file.exists(), f"the commit of {table} did not become version {version}"
        os.utime(file, (self.clock.seconds, self.clock.seconds))


def _rows(path: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    if not (path / "_delta_log").exists():
        return []
    rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
    return rows


@asynccontextmanager
async def running_spark_lab(home: Path) -> AsyncIterator[Lab]:
    """A lab on one warm engine, ready."""
    jars = await asyncio.to_thread(prepare, lambda line: print(f"faults: {line}", flush=True))
    engine = SparkEngine(home / "spark", jars)
    lab = SparkLab(engine=engine)
    try:
        await engine.start()
        async with running_lab(home, lab, InstantEngine(lab.notebook), NOTEBOOK.read_text()):
            (lab.deployment.layout.metastore_root(WORKSPACE) / "main" / "gold").mkdir(parents=True)
            yield lab
    finally:
        await engine.close()
