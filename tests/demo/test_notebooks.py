"""The notebooks as they are, on real Spark: from landed files to gold, in three waves, against plain pandas."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.engine import NotebookResult, NotebookRun, SparkEngine
from databricks_bridge.local.engine.jars import prepare
from demo import deploy, gold, waves

pytestmark = pytest.mark.spark

NOTEBOOKS = deploy.BUNDLE.parent / "notebooks"
GOLD = "main.gold.delays_by_weather"


@dataclass(frozen=True)
class Lab:
    """One metastore for all, which the demo has three of: the notebooks cannot tell."""

    engine: SparkEngine
    home: Path
    run_ids: count[int]

    async def run(self, notebook: str, **parameters: object) -> NotebookResult:
        run_id = next(self.run_ids)
        return await self.engine.run(
            NotebookRun(
                run_id=run_id,
                task_key="test",
                metastore_root=self.home / "metastore",
                volumes_root=self.home / "volumes",
                notebook=NOTEBOOKS / f"{notebook}.py",
                parameters={name: str(value) for name, value in parameters.items()},
                host="http://127.0.0.1:1",
                token="",
                log=self.home / f"{run_id}.log",
            )
        )

    async def succeed(self, notebook: str, **parameters: object) -> dict[str, Any]:
        result = await self.run(notebook, **parameters)
        assert result.succeeded, result.error_trace
        told: dict[str, Any] = json.loads(result.exit_value or "{}")
        return told

    def table(self, name: str) -> Path:
        return self.home.joinpath("metastore", *name.split("."))

    def land(self, wave: int) -> None:
        for workspace, (_, volume) in waves.LANDING.items():
            folder = self.home / "volumes" / volume.removeprefix("/Volumes/")
            for file in waves.files(workspace, wave):
                shutil.copy(file, folder)

    async def silver(self) -> dict[str, int]:
        for layer in ("bronze", "silver"):
            await asyncio.gather(self.succeed(f"{layer}_flights"), self.succeed(f"{layer}_weather"))
        return {name: gold.latest_version(self.table(f"main.silver.{name}")) for name in ("flights", "weather")}

    def ranges(
        self, done: dict[str, int], to: dict[str, int], as_of: dict[str, int] | None = None
    ) -> dict[str, object]:
        return {
            f"{name}_{part}": value
            for name in ("flights", "weather")
            for part, value in {
                "table": f"main.silver.{name}",
                "start": done[name] + 1,
                "end": to[name],
                "as_of": (as_of or to)[name],
            }.items()
        }


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    for schema in sorted({name for schemas in deploy.SCHEMAS.values() for name in schemas}):
        (tmp_path / "metastore" / "main" / schema).mkdir(parents=True)  # here a schema is a folder, and a volume too
    for volume in sorted({name for volumes in deploy.VOLUMES.values() for name in volumes}):
        (tmp_path / "volumes" / "main" / "landing" / volume).mkdir(parents=True)
    engine = SparkEngine(tmp_path / "engine", prepare(print))
    await engine.start()
    try:
        yield Lab(engine, tmp_path, count(1))
    finally:
        await engine.close()


@pytest.mark.timeout(600)
async def test_three_waves_give_the_gold_that_pandas_gives(lab: Lab) -> None:
    for tables in ("flights", "weather", "delays"):
        await lab.succeed("create_tables", tables=tables)
    done = {"flights": -1, "weather": -1}
    landed: dict[str, list[Path]] = {"ops": [], "met": []}
    for landing in ((1,), (2, 3)):  # two waves at once bring several revisions of one key in one batch
        for wave in landing:
            lab.land(wave)
        to = await lab.silver()
        told = await lab.succeed("delays_by_weather", **lab.ranges(done, to))
        assert told["ranges"]["flights"] == {
            "table": "main.silver.flights",
            "start": done["flights"] + 1,
            "end": to["flights"],
            "as_of": to["flights"],
        }
        assert all(rows > 0 for rows in told["rows_in"].values())
        for workspace in landed:
            landed[workspace] += [file for wave in landing for file in waves.files(workspace, wave)]
        wanted = gold.expected(landed["ops"], landed["met"])
        assert gold.differences(gold.actual(lab.table(GOLD)), wanted) == []
        last, done = lab.ranges(done, to), to
    await same_range_again(lab, last, wanted)
    await nothing_new(lab, done)
    await backfills(lab, done, wanted)
    await reader_behind(lab, done)
    await audit(lab)


async def same_range_again(lab: Lab, ranges: dict[str, object], wanted: dict[gold.Hour, gold.Row]) -> None:
    await lab.succeed("delays_by_weather", **ranges)
    assert gold.differences(gold.actual(lab.table(GOLD)), wanted) == []


async def nothing_new(lab: Lab, done: dict[str, int]) -> None:
    told = await lab.succeed("delays_by_weather", **lab.ranges(done, done))
    assert told["rows_in"] == {"flights": 0, "weather": 0}
    assert told["rows_out"] == 0


async def backfills(lab: Lab, newest: dict[str, int], wanted: dict[gold.Hour, gold.Row]) -> None:
    """Old ranges leave gold as the newest state has it, whichever part of the tables they touch (T50)."""
    before = {"flights": -1, "weather": -1}
    some = {name: min(1, version) for name, version in newest.items()}
    stale = {name: version - 1 for name, version in newest.items()}
    for from_, to, as_of in (
        (some, newest, newest),
        (before, some, newest),
        (before, newest, newest),
        (before, some, stale),  # it waited in the queue behind a run that read a newer state
    ):
        told = await lab.succeed("delays_by_weather", bridge_epoch="backfill", **lab.ranges(from_, to, as_of))
        assert told["rows_in"]["flights"] > 0
        assert told["ranges"]["flights"]["as_of"] == newest["flights"]
        assert gold.differences(gold.actual(lab.table(GOLD)), wanted) == []


async def reader_behind(lab: Lab, done: dict[str, int]) -> None:
    ahead = {**done, "weather": done["weather"] + 1}
    result = await lab.run("delays_by_weather", **lab.ranges(done, ahead))
    assert not result.succeeded
    assert result.error is not None
    assert result.error.startswith("BridgeReaderBehind: main.silver.weather is at version")


async def audit(lab: Lab) -> None:
    from deltalake import DeltaTable

    for run_id in ("7,8", "8,9"):
        await lab.succeed("bronze_audit", bronze_run_id=run_id)
    rows = DeltaTable(lab.table("main.audit.bronze_runs")).to_pyarrow_table().to_pylist()
    assert sorted(row["run_id"] for row in rows) == [7, 8, 9]
    assert {row["bronze_rows"] for row in rows} == {sum(len(f.read_text().splitlines()) for f in waves.files("ops"))}
