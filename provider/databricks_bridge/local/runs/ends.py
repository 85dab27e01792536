"""The ends of runs, numbered in the order in which they came: what waits for them reads on from the last it has seen."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict

from databricks_bridge.local.ports import RunFinished, Workspace
from databricks_bridge.local.runs.endings import JOB_ENDINGS
from databricks_bridge.local.runs.model import Run
from databricks_bridge.local.store import Store


def run_finished(workspace: Workspace, run: Run) -> RunFinished:
    """The end of a run that has ended."""
    assert run.outcome is not None, f"run {run.run_id} has not ended"
    ending = JOB_ENDINGS[run.outcome]
    return RunFinished(
        workspace=run.workspace,
        workspace_id=workspace.workspace_id,
        metastore=workspace.metastore,
        job_id=run.job_id,
        run_id=run.run_id,
        trigger=run.trigger,
        result_state=ending.result_state,
        termination_code=ending.code,
        end_time=run.end_time,
    )


def keep_end(store: Store, end: RunFinished) -> None:
    """Give the end its number; in the transaction that ends the run. Nothing waits for runs without a job."""
    if end.job_id is None:
        return
    with store.transaction() as db:
        db.execute(
            "INSERT INTO run_ends (job_id, end_time, body) VALUES (?, ?, ?)",
            (end.job_id, end.end_time, json.dumps(asdict(end))),
        )


def ended_runs(store: Store, job_ids: Collection[int], after: int, since: int) -> list[tuple[int, RunFinished]]:
    """As `ports.JobsPort.ended_runs`."""
    marks = ", ".join("?" for _ in job_ids)
    rows = store.query(
        f"SELECT number, body FROM run_ends WHERE job_id IN ({marks}) AND number > ? AND end_time >= ? ORDER BY number",
        (*job_ids, after, since),
    )
    return [(int(row["number"]), RunFinished(**json.loads(row["body"]))) for row in rows]
