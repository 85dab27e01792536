"""The whole way on real Airflow: sensors in every mode, the operator, a killed task, and mistakes with their words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise

import pytest

from tests.end_to_end.conftest import Bridge, given, until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

WAYS = ("poke", "reschedule", "deferrable")


@pytest.mark.parametrize("way", WAYS)
def test_each_range_of_versions_is_given_to_one_run(bridge: Bridge, way: str) -> None:
    dag_id, job = f"versions_{way}", f"consume-{way}"
    first = bridge.commit(3)
    run_id = bridge.start(dag_id)
    assert bridge.wait(dag_id, run_id) == "success", bridge.log(dag_id, run_id, "consume")
    waiting = bridge.start(dag_id)
    second = bridge.commit(2)
    assert bridge.wait(dag_id, waiting) == "success", bridge.log(dag_id, waiting, "consume")
    runs = bridge.runs("gold", job)
    bounds = [(given(run)["flights_start"], given(run)["flights_end"]) for run in runs]
    assert bounds == [("0", str(first)), (str(first + 1), str(second))]
    assert [given(run)["flights_table"] for run in runs] == ["main.silver.flights"] * 2
    assert len({given(run)["bridge_token"] for run in runs}) == 2
    consumed = bridge.airflow.xcoms(dag_id, waiting, "consume")
    assert consumed["run_id"] == runs[1]["run_id"]
    assert consumed["run_page_url"] == runs[1]["run_page_url"]
    assert consumed["return_value"]["ranges"][0]["to"]["version"] == second


def test_a_cleared_task_with_nothing_new_tells_its_commit_again_without_a_run(bridge: Bridge) -> None:
    bridge.commit(1)
    first = bridge.start("versions_poke")
    assert bridge.wait("versions_poke", first) == "success"
    told = bridge.airflow.xcoms("versions_poke", first, "consume")["return_value"]
    before = len(bridge.runs("gold", "consume-poke"))
    task = "/api/v2/dags/versions_poke/clearTaskInstances"
    body = {
        "dry_run": False,
        "dag_run_id": first,
        "task_ids": ["consume"],
        "only_failed": False,
        "reset_dag_runs": True,
    }
    bridge.call("POST", task, body)
    assert bridge.wait("versions_poke", first) == "success"
    assert bridge.airflow.task("versions_poke", first, "consume")["state"] == "success"
    again = bridge.airflow.xcoms("versions_poke", first, "consume")["return_value"]
    assert (again["run_id"], again["ranges"]) == (told["run_id"], told["ranges"])
    assert len(bridge.runs("gold", "consume-poke")) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_databricks_fired_wakes_the_sensor(bridge: Bridge, way: str) -> None:
    dag_id = f"runs_{way}"
    run_id = bridge.start(dag_id)
    until(
        lambda: bridge.airflow.task(dag_id, run_id, "wait")["state"] in ("running", "deferred", "up_for_reschedule"),
        "the sensor to wait",
        240,
    )
    bridge.land(f"{way}.json")
    assert bridge.wait(dag_id, run_id) == "success", bridge.log(dag_id, run_id, "wait")
    found = bridge.airflow.xcoms(dag_id, run_id, "wait")["return_value"]
    newest = bridge.runs("ops", "by-file")[-1]
    assert (found["run_id"], found["trigger"], found["result_state"]) == (newest["run_id"], "FILE_ARRIVAL", "SUCCESS")
    assert found["end_time"] == newest["end_time"]
    assert found["run_page_url"] == newest["run_page_url"]


@pytest.mark.parametrize("way", WAYS)
def test_a_table_that_moves_wakes_the_plain_sensor(bridge: Bridge, way: str) -> None:
    bridge.commit(1, "main.moving.flights")
    dag_id = f"moves_{way}"
    run_id = bridge.start(dag_id)
    until(
        lambda: bridge.airflow.task(dag_id, run_id, "wait")["state"] in ("running", "deferred", "up_for_reschedule"),
        "the sensor to wait",
        240,
    )
    version = bridge.commit(2, "main.moving.flights")
    assert bridge.wait(dag_id, run_id) == "success", bridge.log(dag_id, run_id, "wait")
    found = bridge.airflow.xcoms(dag_id, run_id, "wait")["return_value"]
    assert (found["table"], found["data_version"]) == ("main.moving.flights", version)


def test_every_fired_run_is_given_to_one_run_downstream(bridge: Bridge) -> None:
    bridge.land("one.json")
    until(lambda: len(bridge.runs("ops", "by-file")) > 0, "a fired run", 240)
    run_id = bridge.start("after_runs")
    assert bridge.wait("after_runs", run_id) == "success", bridge.log("after_runs", run_id, "consume")
    before = [run["run_id"] for run in bridge.runs("ops", "by-file")]
    bridge.land("two.json")
    until(lambda: len(bridge.runs("ops", "by-file")) > len(before), "another fired run", 240)
    run_id = bridge.start("after_runs")
    assert bridge.wait("after_runs", run_id) == "success", bridge.log("after_runs", run_id, "consume")
    fired = [run["run_id"] for run in bridge.runs("ops", "by-file") if run["trigger"] == "FILE_ARRIVAL"]
    consumed = [given(run)["by_file_run_ids"] for run in bridge.runs("gold", "consume-runs")]
    assert len(consumed) == 2
    assert sorted(one for ids in consumed for one in json.loads(ids)) == sorted(fired)


def test_a_killed_task_finds_its_run_again(bridge: Bridge) -> None:
    gold = bridge.workspaces["gold"]
    hold = gold.post("/local/holds", {"job_name": "consume-poke", "at": "after_start"})["hold_id"]
    bridge.commit(1)
    before = len(bridge.runs("gold", "consume-poke"))
    run_id = bridge.start("versions_poke")
    until(lambda: _held(bridge, hold), "the run to be held", 240)
    held = next(one["run_id"] for one in gold.get("/local/holds")["holds"] if one["hold_id"] == hold)
    until(lambda: "run_id" in bridge.airflow.xcoms("versions_poke", run_id, "consume"), "its id", 240)
    pid = bridge.airflow.task("versions_poke", run_id, "consume")["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: bridge.airflow.task("versions_poke", run_id, "consume")["try_number"] == 2, "try 2", 240)
    gold.delete(f"/local/holds/{hold}")
    assert bridge.wait("versions_poke", run_id) == "success", bridge.log("versions_poke", run_id, "consume", 2)
    assert bridge.airflow.task("versions_poke", run_id, "consume")["try_number"] == 2
    assert bridge.airflow.xcoms("versions_poke", run_id, "consume")["run_id"] == held
    assert len(bridge.runs("gold", "consume-poke")) == before + 1


def test_claim_and_commit_around_a_task_that_is_no_job(bridge: Bridge) -> None:
    exported = []
    for rows in (3, 2):
        bridge.commit(rows, "main.around.flights")
        run_id = bridge.start("around")
        assert bridge.wait("around", run_id) == "success", bridge.log("around", run_id, "commit_around")
        exported.append(bridge.airflow.xcoms("around", run_id, "export")["return_value"])
    assert [one[:3] for one in exported] == [["main.around.flights", "0", "0"], ["main.around.flights", "1", "1"]]
    assert exported[0][3] != exported[1][3]
    run_id = bridge.start("around")
    assert bridge.wait("around", run_id) == "success"
    assert bridge.airflow.task("around", run_id, "claim_around")["state"] == "skipped"


def test_the_subscription_s_asset_starts_the_dag_for_each_commit_and_never_for_nothing(bridge: Bridge) -> None:
    for rows in (3, 2, 1):
        version = bridge.commit(rows, "main.watched.flights")
        until(lambda wanted=version: _consumed(bridge) == wanted, f"version {version}", 240)
    runs = bridge.runs("gold", "consume-asset")
    bounds = [(int(given(run)["flights_start"]), int(given(run)["flights_end"])) for run in runs]
    assert bounds[0][0] == 0
    assert all(after[0] == before[1] + 1 for before, after in pairwise(bounds))
    assert {run["state"]["result_state"] for run in runs} == {"SUCCESS"}
    dag_runs = bridge.airflow.dag_runs("by_asset")
    assert {run["run_type"] for run in dag_runs} == {"asset_triggered"}
    assert len(dag_runs) <= 2 * len(runs)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("wrong_token", ["NotAuthenticated", "127.0.0.1"]),
        ("missing_table", ["NotFound", "main.silver.nowhere"]),
        ("missing_job", ["NotFound", "no-such-job"]),
        ("missing_connection", ["InvalidArgument", "'nowhere'"]),
    ],
)
def test_a_mistake_fails_the_task_and_says_what_it_is(bridge: Bridge, mistake: str, words: list[str]) -> None:
    dag_id = f"mistake_{mistake}"
    run_id = bridge.start(dag_id)
    assert bridge.wait(dag_id, run_id) == "failed"
    said = bridge.log(dag_id, run_id, "consume")
    for word in words:
        assert word in said
    assert "not-the-token" not in said
    assert bridge.deployment.token("ops") not in said


def _consumed(bridge: Bridge) -> int:
    ended = [run for run in bridge.runs("gold", "consume-asset") if run["state"].get("result_state") == "SUCCESS"]
    return max((int(given(run)["flights_end"]) for run in ended), default=-1)


def test_a_ledger_in_an_object_store_serves_watcher_operator_and_command_line(bridge: Bridge) -> None:
    version = bridge.commit(4, "main.stored.flights")
    until(lambda: _watermark(bridge) == version, "the commit in the ledger", 240)
    runs = bridge.runs("gold", "consume-store")
    assert [(given(run)["flights_start"], given(run)["flights_end"]) for run in runs] == [("0", str(version))]


def _watermark(bridge: Bridge) -> int:
    words = ["databricks_bridge.cli", "watermark", "get", "stored", "--ledger", bridge.ledger, "--json"]
    code = f"import sys; from databricks_bridge.cli import main; sys.exit(main({words[1:]!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return -2
    return int(json.loads(done.stdout)["watermarks"]["flights"]["version"])


def _held(bridge: Bridge, hold_id: int) -> bool:
    holds = bridge.workspaces["gold"].get("/local/holds")["holds"]
    return any(one["hold_id"] == hold_id and one["state"] == "holding" for one in holds)
