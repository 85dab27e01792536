"""What the fixture `databricks_local` is made of, without pytest's part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from databricks_bridge.core.errors import NotFound
from databricks_bridge.core.parameter_names import declarable_names
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.local.fake_notebooks import FakeNotebooks, NotebookCall
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.testing import PLACEHOLDER, StillWaiting, local_databricks

SOURCES = [DeltaTable("main.silver.flights"), DeltaTable("main.silver.weather", alias="sky")]


def copy_file(call: NotebookCall) -> str:
    text = call.volume("/Volumes/main/landing/in/a.txt").read_text()
    return f"{call.workspace} {call.path} {call.parameters['day']} {text} {Path(call.table('main.gold.t')).name}"


def test_a_declared_notebook_sees_its_workspace_and_a_job_declares_what_a_claim_sends(tmp_path: Path) -> None:
    engine = FakeNotebooks(Layout(tmp_path), {"/Workspace/Shared/copy.py": copy_file})
    with local_databricks(
        tmp_path,
        ["ops", "gold"],
        engine,
        ledger=tmp_path / "ledger",
        notebooks={"/Shared/copy": PLACEHOLDER},
        time_scale=0.01,
        set_for_test=setattr,
    ) as found:
        gold = found["gold"]
        assert found.workspace is found["ops"]
        job_id = gold.job("copy", "/Shared/copy", parameters=["day"], sources=["flights", "sky"])
        settings = gold.call("GET", "/api/2.2/jobs/get", job_id=job_id)["settings"]
        assert {one["name"] for one in settings["parameters"]} == declarable_names(SOURCES, ["day"])
        gold.land("/Volumes/main/landing/in/a.txt", "text")
        gold.call("POST", "/api/2.2/jobs/run-now", {"job_id": job_id, "job_parameters": {"day": "Monday"}})
        (run,) = gold.ended("copy")
        assert gold.result(run) == "gold /Shared/copy Monday text t"
        assert gold.parameters("copy")[0]["day"] == "Monday"
        with pytest.raises(NotFound, match="the workspace ops has no job named copy"):
            found["ops"].runs("copy")
        with pytest.raises(StillWaiting, match=r"no 2 runs of copy after 0\.1 s"):
            gold.ended("copy", 2, seconds=0.1)
        assert found.environment().keys() == {
            "AIRFLOW_CONN_OPS",
            "AIRFLOW_CONN_GOLD",
            "AIRFLOW__DATABRICKS_BRIDGE__LEDGER",
        }
        assert gold.append("main.silver.t", [{"id": 1}]) == 0
        assert gold.append("main.silver.t", [{"id": 2}]) == 1
