"""A deployment as a whole: its file, its lock, its ports, and what a restart keeps."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.command import main
from databricks_bridge.local.deployment import (
    Deployment,
    DeploymentError,
    deployment_in_thread,
    running_deployment,
)
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.ports import RunFinished
from databricks_bridge.local.runs.admission import Order
from databricks_bridge.local.workspace_spec import WorkspaceSpec
from tests.local.local_kit import Api, Notebooks, bare_workspace, client, eventually, write_notebook


def test_the_deployment_file_is_there_while_it_is_ready_and_private(deployment: Deployment) -> None:
    file = deployment.layout.deployment_file
    body = json.loads(file.read_text())
    assert file.stat().st_mode & 0o777 == 0o600
    assert body["pid"] == os.getpid()
    assert body["workspaces"]["ops"]["host"] == deployment.host("ops")
    assert body["workspaces"]["ops"]["token"] == deployment.token("ops")
    assert [body["workspaces"][name]["workspace_id"] for name in ("ops", "met")] == ["1001", "1002"]


async def test_it_also_runs_inside_a_loop_and_cleans_up(tmp_path: Path, notebooks: Notebooks) -> None:
    async with running_deployment(tmp_path, ["ops"], engine=InstantEngine(notebooks.run)) as up:
        file = up.layout.deployment_file
        assert file.exists()
    assert not file.exists()


def test_workspaces_may_share_a_metastore(tmp_path: Path, notebooks: Notebooks) -> None:
    specs = [WorkspaceSpec("a", metastore="shared"), WorkspaceSpec("b", metastore="shared"), WorkspaceSpec("c")]
    with deployment_in_thread(tmp_path, specs, engine=InstantEngine(notebooks.run)) as up:
        a, b, c = (up.workspaces[name] for name in "abc")
        assert (a.metastore, a.metastore_id) == (b.metastore, b.metastore_id)
        assert c.metastore_id != a.metastore_id


def test_a_port_in_use_is_named_with_its_workspace(tmp_path: Path, notebooks: Notebooks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        specs = [WorkspaceSpec("ops", port=port)]
        with (
            pytest.raises(DeploymentError, match=f"port {port} for the workspace ops is in use"),
            deployment_in_thread(tmp_path, specs, engine=InstantEngine(notebooks.run)),
        ):
            pass


def test_a_second_deployment_on_the_same_home_is_refused(deployment: Deployment, notebooks: Notebooks) -> None:
    home = deployment.layout.home
    with (
        pytest.raises(DeploymentError, match=f"{home} is in use by a deployment with pid {os.getpid()}"),
        deployment_in_thread(home, ["ops"], engine=InstantEngine(notebooks.run)),
    ):
        pass
    assert deployment.layout.deployment_file.exists()


def test_nothing_of_a_deployment_is_left_in_its_process(tmp_path: Path, notebooks: Notebooks) -> None:
    before = threading.active_count()
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(notebooks.run)) as up:
        port = int(up.host("ops").rpartition(":")[2])
    assert threading.active_count() == before
    with socket.create_server(("127.0.0.1", port)):
        pass


async def test_a_deployment_that_fails_to_start_leaves_nothing_behind(
    tmp_path: Path, notebooks: Notebooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(workspace: object) -> None:
        raise RuntimeError("no app today")

    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        patch.setattr("databricks_bridge.local.deployment.create_app", broken)
        with pytest.raises(RuntimeError, match="no app today"):
            async with running_deployment(tmp_path, ["ops"], engine=InstantEngine(notebooks.run)):
                pass
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    async with running_deployment(tmp_path, ["ops"], engine=InstantEngine(notebooks.run)):
        pass


@pytest.fixture
def killed_home(tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """The home of a deployment that was killed with SIGKILL, and what was going on in it.

    Of the job `single` one run was running and one queued; `retried` was running and has a retry; `chain` was at its
    first task; `cancelled` was asked to stop.
    """
    home = tmp_path / "home"
    script = Path(__file__).parent / "instant_server.py"
    server = subprocess.Popen([sys.executable, str(script), str(home)])
    try:
        file = home / "deployment.json"
        eventually(file.exists, seconds=60)
        told = json.loads(file.read_text())["workspaces"]["ops"]
        from databricks.sdk import WorkspaceClient

        api = Api(WorkspaceClient(host=told["host"], token=told["token"]))
        notebook = {"notebook_path": "/Shared/main"}
        folder = home / "workspaces" / "ops" / "files" / "Shared"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.py").write_text("")

        def job(name: str, *tasks: dict[str, Any]) -> int:
            given = [{"notebook_task": notebook, **task} for task in tasks]
            return int(api.post("create", name=name, tasks=given, queue={"enabled": True})["job_id"])

        single = job("single", {"task_key": "main"})
        retried = job("retried", {"task_key": "main", "max_retries": 1})
        chain = job("chain", {"task_key": "a"}, {"task_key": "b", "depends_on": [{"task_key": "a"}]})
        runs = {
            "running": api.post("run-now", job_id=single, idempotency_token="token")["run_id"],
            "queued": api.post("run-now", job_id=single)["run_id"],
            "retried": api.post("run-now", job_id=retried)["run_id"],
            "chain": api.post("run-now", job_id=chain)["run_id"],
        }
        for name in ("running", "retried", "chain"):
            eventually(lambda name=name: api.run(runs[name])["tasks"][0]["state"]["life_cycle_state"] == "RUNNING")
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    return home, runs | {"single": single, "pid": server.pid}


def test_a_restart_after_a_kill_loses_nothing(killed_home: tuple[Path, dict[str, int]], notebooks: Notebooks) -> None:
    home, known = killed_home
    told = json.loads((home / "deployment.json").read_text())["workspaces"]["ops"]
    notebooks.block("main")
    with deployment_in_thread(home, ["met", "ops"], engine=InstantEngine(notebooks.run)) as up:
        assert up.token("ops") == told["token"]
        assert up.workspaces["ops"].workspace_id == told["workspace_id"]
        api = Api(client(up, "ops"))
        running = api.ended(known["running"])
        assert (running["state"]["life_cycle_state"], running["state"]["result_state"]) == ("INTERNAL_ERROR", "FAILED")
        assert "the local workspace was restarted" in running["state"]["state_message"].lower()
        assert running["status"]["termination_details"]["code"] == "INTERNAL_ERROR"
        chain = api.ended(known["chain"])
        assert [task["state"]["result_state"] for task in chain["tasks"]] == ["FAILED", "UPSTREAM_FAILED"]
        assert api.running(known["queued"])["run_id"] == known["queued"]
        assert api.running(known["retried"])["tasks"][-1]["attempt_number"] == 1
        notebooks.unblock("main")
        assert api.ended(known["queued"])["state"]["result_state"] == "SUCCESS"
        assert api.ended(known["retried"])["state"]["result_state"] == "SUCCESS"
        again = api.post("run-now", job_id=known["single"], idempotency_token="token")
        assert again["run_id"] == known["running"]
        newer = api.post("run-now", job_id=known["single"])["run_id"]
        assert newer > max(task["run_id"] for task in api.ended(known["retried"])["tasks"])


async def test_the_file_of_a_killed_deployment_is_gone_before_the_engine_starts(
    tmp_path: Path, notebooks: Notebooks
) -> None:
    file = tmp_path / "deployment.json"
    file.write_text("{}")
    seen: list[bool] = []

    class Engine(InstantEngine):
        async def start(self) -> None:
            seen.append(file.exists())

    async with running_deployment(tmp_path, ["ops"], engine=Engine(notebooks.run)):
        assert json.loads(file.read_text())["pid"] == os.getpid()
    assert seen == [False]


def test_an_orderly_stop_leaves_runs_to_the_next_start(tmp_path: Path, notebooks: Notebooks) -> None:
    notebooks.block("main")
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(notebooks.run)) as up:
        api = Api(client(up, "ops"))
        task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(up, "ops", "main")}}
        job_id = api.post("create", name="j", tasks=[task], queue={"enabled": True})["job_id"]
        first, second = (api.post("run-now", job_id=job_id)["run_id"] for _ in range(2))
        eventually(lambda: len(notebooks.seen) == 1)
    assert len(notebooks.killed) == 1
    notebooks.functions.clear()
    calm = Notebooks()
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(calm.run)) as up:
        api = Api(client(up, "ops"))
        assert api.ended(first)["state"]["result_state"] == "FAILED"
        assert api.ended(second)["state"]["result_state"] == "SUCCESS"


REFUSED = {
    "a port that is no number": (["--workspace", "ops", "--port", "ops=many"], "a port is a number"),
    "a port of other digits": (["--workspace", "ops", "--port", "ops=²"], "a port is a number"),
    "a port of another workspace": (["--workspace", "ops", "--port", "met=1"], "one of the workspaces ops"),
    "a workspace twice": (["--workspace", "ops", "--workspace", "ops"], "given twice"),
    "a workspace named like a path": (["--workspace", "../ops"], "lower-case letters"),
    "time that stands still": (["--workspace", "ops", "--time-scale", "0"], "above 0"),
    "a metastore without a name": (["--workspace", "ops", "--metastore", "ops="], "NAME=VALUE"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_command_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    options, message = REFUSED[case]
    assert main(["--home", str(tmp_path), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_the_command_names_a_port_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--home", str(tmp_path), "--workspace", "ops", "--port", f"ops={port}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"port {port} for the workspace ops is in use" in line


def test_a_file_that_lands_starts_a_run_by_itself(tmp_path: Path, notebooks: Notebooks) -> None:
    engine = InstantEngine(notebooks.run)
    with deployment_in_thread(tmp_path, ["ops"], engine=engine, time_scale=0.005) as up:
        api = Api(client(up, "ops"))
        base = {"where": "{{job.trigger.file_arrival.location}}"}
        notebook = {"notebook_path": write_notebook(up, "ops", "main"), "base_parameters": base}
        landing = up.layout.volume_path("ops", "/Volumes/main/landing/flights/")
        landing.mkdir(parents=True)
        trigger = {"file_arrival": {"url": "/Volumes/main/landing/flights/"}}
        task = {"task_key": "main", "notebook_task": notebook}
        job_id = api.post("create", name="bronze-flights", tasks=[task], trigger=trigger)["job_id"]
        state = {"include_trigger_state": "true"}
        eventually(lambda: "file_arrival" in api.get("get", job_id=job_id, **state)["trigger_state"])
        (landing / "one.json").write_text("{}")
        run = api.ended(eventually(lambda: api.get("runs/list", job_id=job_id).get("runs"))[0]["run_id"])
        assert run["trigger"] == "FILE_ARRIVAL"
        assert run["state"]["result_state"] == "SUCCESS"
        assert notebooks.seen[0].parameters == {"where": "/Volumes/main/landing/flights/"}


async def test_a_run_that_ended_just_before_a_crash_still_starts_what_waits_for_it(
    tmp_path: Path, notebooks: Notebooks
) -> None:
    """Its end is in the store, and the scheduler was never told: as if the process had died between the two."""
    task = {"task_key": "main", "notebook_task": {"notebook_path": "/Shared/main"}}
    engine = InstantEngine(notebooks.run)

    def arrange() -> tuple[int, int]:
        with deployment_in_thread(tmp_path, ["ops"], engine=engine) as up:
            api = Api(client(up, "ops"))
            upstream = api.post("create", name="upstream", tasks=[task])["job_id"]
            jobs = [{"workspace_id": up.workspaces["ops"].workspace_id, "job_id": str(upstream)}]
            trigger = {"job_completion": {"jobs": jobs}}
            return upstream, api.post("create", name="downstream", tasks=[task], trigger=trigger)["job_id"]

    def runs_after_the_restart(downstream: int) -> list[dict[str, Any]]:
        with deployment_in_thread(tmp_path, ["ops"], engine=engine) as up:
            api = Api(client(up, "ops"))
            (run,) = eventually(lambda: api.get("runs/list", job_id=downstream).get("runs"))
            return [api.ended(run["run_id"])]

    upstream, downstream = await asyncio.to_thread(arrange)
    ops = bare_workspace(tmp_path, notebooks)
    finished: asyncio.Queue[RunFinished] = asyncio.Queue()
    ops.runs.on_run_finished(finished.put_nowait)
    job = ops.store.job(upstream)
    assert job is not None
    ended = ops.runs.create(ops, Order(job_id=upstream, settings=job.settings))
    await asyncio.wait_for(finished.get(), 10)
    await ops.runs.close()
    ops.store.close()
    for _ in range(2):
        (run,) = await asyncio.to_thread(runs_after_the_restart, downstream)
        completed = run["trigger_info"]["job_completion"]["completed_jobs"]
        assert [item["run_id"] for item in completed] == [str(ended.run_id)]
