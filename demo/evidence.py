"""Gathers what the proof looks at: run lists and outputs of the workspaces, Airflow's REST API, and the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from demo import gold
from demo.airflow_api import AirflowApi
from demo.databricks_api import Json, Workspace
from demo.history import AuditRun, Facts, FiredRun, GoldRun, Killed, Overtaken, Range
from demo.places import AUDIT_JOB, BRONZE_AND_SILVER, GOLD_DAG, GOLD_JOB, GOLD_TASK, Places
from demo.waves import Landed

SOURCES = {"flights": ("ops", "main.silver.flights"), "weather": ("met", "main.silver.weather")}
GOLD_TABLE = ("analytics", "main.gold.delays_by_weather")


def gather(places: Places, workspaces: Mapping[str, Workspace], airflow: AirflowApi, landed: Landed) -> Facts:
    """Read everything once, now. `landed` are the files that gold is to be computed from."""
    analytics, ops = workspaces["analytics"], workspaces["ops"]
    told = json.loads(places.story.read_text()) if places.story.exists() else {}
    return Facts(
        gold_runs=[gold_run(analytics, analytics.run(run["run_id"])) for run in analytics.runs(GOLD_JOB)],
        fired_runs=[
            FiredRun(name, job, run["run_id"], run["trigger"])
            for name, jobs in BRONZE_AND_SILVER.items()
            for job in jobs
            for run in workspaces[name].runs(job)
        ],
        audit_runs=[audit_run(ops.run(run["run_id"])) for run in ops.runs(AUDIT_JOB)],
        latest={alias: gold.latest_version(places.table(*table)) for alias, table in SOURCES.items()},
        killed=_killed(told, airflow),
        overtaken=Overtaken(**told["overtaken"]) if "overtaken" in told else None,
        gold=gold.actual(places.table(*GOLD_TABLE)),
        expected=gold.expected(landed["ops"], landed["met"]),
    )


def gold_run(workspace: Workspace, run: Json) -> GoldRun:
    """A run of the gold job, read from its job parameters and, when it succeeded, from its notebook's result."""
    given = parameters(run)
    result = str(run["state"].get("result_state", run["status"]["state"]))
    told = json.loads(workspace.output(run)["notebook_output"]["result"]) if result == "SUCCESS" else {}
    return GoldRun(
        run_id=run["run_id"],
        started=run["start_time"],
        result=result,
        subscription=given["bridge_subscription"],
        epoch=given["bridge_epoch"],
        generation=given["bridge_generation"],
        token=given["bridge_token"],
        ranges=tuple(_range(part) for part in json.loads(given["bridge_ranges"] or "[]")),
        rows_in=told.get("rows_in", {}),
        rows_out=told.get("rows_out", 0),
    )


def audit_run(run: Json) -> AuditRun:
    given = parameters(run)["bronze_run_id"]
    bronze = tuple(int(run_id) for run_id in given.split(",") if run_id.strip())
    return AuditRun(run["run_id"], str(run["state"].get("result_state", run["status"]["state"])), bronze)


def parameters(run: Json) -> dict[str, str]:
    """Name to the value that the run was given, or the job's default."""
    return {entry["name"]: entry.get("value", entry.get("default", "")) for entry in run.get("job_parameters", [])}


def _range(part: Mapping[str, Any]) -> Range:
    return Range(part["alias"], str(part["table_id"]), int(part["from"]), int(part["to"]))


def _killed(told: Json, airflow: AirflowApi) -> Killed | None:
    if "killed" not in told:
        return None
    dag_run, run_id = told["killed"]["dag_run"], told["killed"]["run_id"]
    tries = airflow.tries(GOLD_DAG, dag_run, GOLD_TASK)
    now = airflow.xcoms(GOLD_DAG, dag_run, GOLD_TASK).get("run_id")
    return Killed(
        dag_run=dag_run,
        run_id_at_kill=run_id,
        tries=tuple((entry["try_number"], entry["state"]) for entry in tries),
        run_id_now=int(now) if now is not None else None,
    )
