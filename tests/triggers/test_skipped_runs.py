"""A run that a trigger fired and that was skipped, on the local workspace: what it means for either kind of source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core.pending import RunsFinding, TableFinding
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.positions import Position, TablePosition
from databricks_bridge.core.sources import DeltaTable, TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.feeds.look import Looker
from databricks_bridge.hooks.databricks import open_workspace
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from tests.local.local_kit import OK, Api, Notebooks, client, eventually, write_notebook

LANDING = "/Volumes/main/landing/files/"
FIRED = TriggeredRuns(job_name="bronze", databricks_conn_id="ops", triggers=frozenset({"FILE_ARRIVAL"}), alias="fired")
TABLE = DeltaTable("main.bronze.files", databricks_conn_id="ops")
SPEC = SubscriptionSpec("both", (FIRED, TABLE), "earliest", Policy())


@dataclass
class Bronze:
    """A job without a queue that a file fires: it appends one row for each file it has not read, as a stream does."""

    deployment: Deployment
    notebooks: Notebooks
    api: Api
    job_id: int

    def land(self, name: str) -> None:
        folder = self.deployment.layout.volume_path("ops", LANDING)
        (folder / f".{name}").write_text("{}")
        (folder / f".{name}").rename(folder / name)

    def runs(self) -> list[dict[str, Any]]:
        """Oldest first."""
        return list(reversed(self.api.get("runs/list", job_id=self.job_id).get("runs", [])))

    def ended(self, count: int, result: str) -> list[int]:
        """The ids of the runs with this result, once there are so many."""

        def found() -> list[int]:
            return [run["run_id"] for run in self.runs() if run["state"].get("result_state") == result]

        eventually(lambda: len(found()) >= count)
        return found()

    def rows(self) -> list[str]:
        from deltalake import DeltaTable as Delta

        return sorted(Delta(self._path()).to_pyarrow_table()["file"].to_pylist())

    def append_new_files(self, run: NotebookRun) -> NotebookResult:
        import pyarrow as pa
        from deltalake import DeltaTable as Delta
        from deltalake import write_deltalake

        known = set(self.rows()) if Delta.is_deltatable(self._path()) else set()
        landed = {file.name for file in self.deployment.layout.volume_path("ops", LANDING).iterdir()}
        write_deltalake(self._path(), pa.table({"file": sorted(landed - known)}), mode="append")
        return OK

    def _path(self) -> str:
        return str(self.deployment.layout.table_path("ops", TABLE.table))


@pytest.fixture
def bronze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bronze]:
    notebooks = Notebooks()
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(notebooks.run), time_scale=1 / 60) as deployment:
        connection = {"conn_type": "databricks", "host": deployment.host("ops"), "password": deployment.token("ops")}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        deployment.layout.volume_path("ops", LANDING).mkdir(parents=True)
        api = Api(client(deployment, "ops"))
        task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "bronze")}}
        job = api.post("create", name="bronze", tasks=[task], trigger={"file_arrival": {"url": LANDING}})
        made = Bronze(deployment, notebooks, api, int(job["job_id"]))
        notebooks.functions["bronze"] = made.append_new_files
        yield made


async def look(marks: dict[str, Position]) -> tuple[RunsFinding, TablePosition]:
    async with Looker(open_workspace) as looker:
        found = await looker.look(SPEC, marks)
    runs, table = found["fired"], found["files"]
    assert isinstance(runs, RunsFinding)
    assert isinstance(table, TableFinding)
    assert table.position is not None
    return runs, table.position


async def test_C08_a_skipped_run_is_no_range_of_runs_and_what_it_left_is_in_the_next_range_of_the_table(
    bronze: Bronze,
) -> None:
    bronze.land("one.json")
    (first,) = bronze.ended(1, "SUCCESS")
    runs, table = await look({})
    assert (runs.runs, table.version) == ((first,), 0)

    bronze.notebooks.block("bronze")
    bronze.land("two.json")
    eventually(lambda: len(bronze.notebooks.seen) == 2)
    bronze.land("three.json")
    (skipped,) = bronze.ended(1, "MAXIMUM_CONCURRENT_RUNS_REACHED")
    marks: dict[str, Position] = {"fired": runs.position, "files": table}
    runs, table = await look(marks)
    assert (runs.runs, table.version) == ((), 0), "it did nothing, and moves neither watermark"

    bronze.notebooks.unblock("bronze")
    _, second = bronze.ended(2, "SUCCESS")
    runs, table = await look(marks)
    assert (runs.runs, table.version) == ((second,), 1)
    assert skipped not in (first, second)

    bronze.land("four.json")
    third = bronze.ended(3, "SUCCESS")[-1]
    runs, table = await look({"fired": runs.position, "files": table})
    assert (runs.runs, table.version) == ((third,), 2)
    assert bronze.rows() == ["four.json", "one.json", "three.json", "two.json"]
