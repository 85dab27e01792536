"""Old runs go, as on Databricks: after 60 days. Of one job no more than a bound are kept, so that a job that runs again and
again fills no disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.model import Phase
from databricks_bridge.local.runs.records import all_attempts_of, get_run, remove_run
from databricks_bridge.local.store import Store

KEPT_DAYS = 60
MOST_RUNS_OF_A_JOB = 10_000
AT_ONCE = 200
"""Runs that go in one step, so that none keeps the server from answering for long."""
_DAY_MS = 24 * 3600 * 1000


def prune(store: Store, workspaces: Mapping[str, Workspace], now_ms: int, most: int = MOST_RUNS_OF_A_JOB) -> list[int]:
    """Delete runs that ended over 60 days ago, and of each job all but the newest that have ended; their ids.

    :param now_ms: the service's clock, in epoch milliseconds.
    :param most: of one job so many ended runs are kept.
    """
    oldest = now_ms - KEPT_DAYS * _DAY_MS
    old = store.query(
        "SELECT run_id FROM runs WHERE phase = ? AND start_time < ? AND json_extract(body, '$.end_time') < ? LIMIT ?",
        (Phase.DONE.value, oldest, oldest, AT_ONCE),
    )
    too_many = store.query(
        "SELECT run_id FROM (SELECT run_id, row_number() OVER (PARTITION BY job_id ORDER BY start_time DESC, run_id DESC)"
        " AS place FROM runs WHERE phase = ? AND job_id IS NOT NULL) WHERE place > ? LIMIT ?",
        (Phase.DONE.value, most, AT_ONCE),
    )
    gone = [int(row["run_id"]) for row in (*old, *too_many)]
    for run_id in gone:
        _remove(store, workspaces, run_id)
    with store.transaction() as db:
        db.execute("DELETE FROM run_ends WHERE end_time < ?", (oldest,))
        db.executemany("DELETE FROM run_tokens WHERE run_id = ?", [(row["run_id"],) for row in old])
    return gone


def _remove(store: Store, workspaces: Mapping[str, Workspace], run_id: int) -> None:
    run = get_run(store, run_id)
    workspace = None if run is None else workspaces.get(run.workspace)
    if run is None or workspace is None:
        return
    attempts = all_attempts_of(store, run_id)
    remove_run(store, run_id)
    for attempt in attempts:
        shutil.rmtree(workspace.layout.run_folder(workspace.name, attempt.run_id), ignore_errors=True)
