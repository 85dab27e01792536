"""Runs, attempts and idempotency tokens in the store: values in, values out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from databricks_bridge.local.runs.model import SLOT_PHASES, Attempt, Outcome, Phase, Repair, Run
from databricks_bridge.local.store import Store

# As the store's index attempts_by_parent has them.
_PARENT, _ITERATION = "ifnull(json_extract(body, '$.parent'), 0)", "json_extract(body, '$.iteration')"
ACTIVE = tuple(phase.value for phase in (Phase.QUEUED, *SLOT_PHASES))


@dataclass(frozen=True)
class RunFilter:
    """What runs/list may ask for. Both times are inclusive, in epoch milliseconds; None means any."""

    job_id: int | None = None
    active: bool | None = None
    run_type: str | None = None
    start_time_from: int | None = None
    start_time_to: int | None = None


def put_run(store: Store, run: Run) -> Run:
    """Write a new or changed run."""
    body = asdict(run)
    row = (run.run_id, run.workspace, run.job_id, run.run_type, run.phase.value, run.start_time, json.dumps(body))
    with store.transaction() as db:
        db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    return run


def put_attempt(store: Store, attempt: Attempt) -> Attempt:
    """Write a new or changed attempt."""
    row = (attempt.run_id, attempt.job_run_id, attempt.phase.value, json.dumps(asdict(attempt)))
    with store.transaction() as db:
        db.execute("INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?)", row)
    return attempt


def get_run(store: Store, run_id: int, workspace: str | None = None) -> Run | None:
    """The job run, or None; with `workspace`, None too for a run of another one."""
    rows = store.query("SELECT * FROM runs WHERE run_id = ?", (run_id,))
    return _run(rows[0]) if rows and workspace in (None, rows[0]["workspace"]) else None


def get_attempt(store: Store, run_id: int) -> Attempt | None:
    rows = store.query("SELECT * FROM attempts WHERE run_id = ?", (run_id,))
    return _attempt(rows[0]) if rows else None


def attempts_of(store: Store, job_run_id: int, *, limit: int = -1) -> list[Attempt]:
    """The attempts of a run's own tasks, in the order in which they were made; all, or the first `limit`."""
    own = f"job_run_id = ? AND {_PARENT} = 0 AND {_ITERATION} IS NULL"
    rows = store.query(f"SELECT * FROM attempts WHERE {own} ORDER BY run_id LIMIT ?", (job_run_id, limit))
    return [_attempt(row) for row in rows]


def all_attempts_of(store: Store, job_run_id: int) -> list[Attempt]:
    """All attempts of a run, with the iterations of for each tasks."""
    rows = store.query("SELECT * FROM attempts WHERE job_run_id = ? ORDER BY run_id", (job_run_id,))
    return [_attempt(row) for row in rows]


def unfinished_attempts_of(store: Store, job_run_id: int) -> list[Attempt]:
    """Those of a run and of its iterations that have not ended."""
    rows = store.query(
        "SELECT * FROM attempts WHERE job_run_id = ? AND phase <> ? ORDER BY run_id", (job_run_id, Phase.DONE.value)
    )
    return [_attempt(row) for row in rows]


def iterations_of(store: Store, attempt: Attempt, *, start: int, limit: int) -> list[Attempt]:
    """The newest attempt of each iteration of a for each task's attempt, in their order; `limit` of them from `start` on."""
    newest = (
        f"SELECT max(run_id) AS run_id FROM attempts WHERE job_run_id = ? AND {_PARENT} = ?"
        f" GROUP BY {_ITERATION} ORDER BY {_ITERATION} LIMIT ? OFFSET ?"
    )
    rows = store.query(
        f"SELECT * FROM attempts WHERE run_id IN ({newest}) ORDER BY {_ITERATION}",
        (attempt.job_run_id, attempt.run_id, limit, start),
    )
    return [_attempt(row) for row in rows]


def everything(store: Store) -> tuple[list[Run], list[Attempt]]:
    """All runs and attempts of all workspaces, oldest first."""
    runs = [_run(row) for row in store.query("SELECT * FROM runs ORDER BY start_time, run_id")]
    return runs, [_attempt(row) for row in store.query("SELECT * FROM attempts ORDER BY run_id")]


@dataclass(frozen=True)
class Cursor:
    """A place between two runs of a list: just before or just after the run with this start time and id."""

    start_time: int
    run_id: int
    newer: bool


def list_runs(store: Store, workspace: str, wanted: RunFilter, cursor: Cursor | None, limit: int) -> list[Run]:
    """At most `limit` runs of a workspace, newest start first.

    With a cursor: those next to it on its newer or its older side, without the run that it names.
    """
    where = ["workspace = ?"]
    parameters: list[Any] = [workspace]
    order = "start_time DESC, run_id DESC"
    if cursor is not None:
        where.append(f"(start_time, run_id) {'>' if cursor.newer else '<'} (?, ?)")
        parameters += [cursor.start_time, cursor.run_id]
        order = "start_time, run_id" if cursor.newer else order
    for clause, value in (
        ("job_id = ?", wanted.job_id),
        ("run_type = ?", wanted.run_type),
        ("start_time >= ?", wanted.start_time_from),
        ("start_time <= ?", wanted.start_time_to),
    ):
        if value is not None:
            where.append(clause)
            parameters.append(value)
    if wanted.active is not None:
        marks = ", ".join("?" for _ in ACTIVE)
        where.append(f"phase {'' if wanted.active else 'NOT '}IN ({marks})")
        parameters.extend(ACTIVE)
    sql = f"SELECT * FROM runs WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"
    runs = [_run(row) for row in store.query(sql, (*parameters, limit))]
    return runs[::-1] if cursor is not None and cursor.newer else runs


def runs_in(store: Store, phases: Iterable[Phase], job_id: int | None = None) -> list[Run]:
    """Runs of all workspaces, or of one job, that are in one of `phases`, oldest first."""
    names = tuple(phase.value for phase in phases)
    sql = f"SELECT * FROM runs WHERE phase IN ({', '.join('?' for _ in names)})"
    if job_id is None:
        return [_run(row) for row in store.query(f"{sql} ORDER BY start_time, run_id", names)]
    return [_run(row) for row in store.query(f"{sql} AND job_id = ? ORDER BY start_time, run_id", (*names, job_id))]


def remove_run(store: Store, run_id: int) -> None:
    """Delete a run and its attempts. Its idempotency token stays, as the API promises an error for it."""
    with store.transaction() as db:
        db.execute("DELETE FROM attempts WHERE job_run_id = ?", (run_id,))
        db.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))


def run_of_token(store: Store, workspace: str, token: str) -> int | None:
    """The run id that a token stands for in this workspace, whether the run still exists or not."""
    rows = store.query("SELECT run_id FROM run_tokens WHERE workspace = ? AND token = ?", (workspace, token))
    return int(rows[0]["run_id"]) if rows else None


def keep_token(store: Store, workspace: str, token: str, run_id: int) -> None:
    with store.transaction() as db:
        db.execute("INSERT INTO run_tokens VALUES (?, ?, ?)", (workspace, token, run_id))


def _run(row: sqlite3.Row) -> Run:
    body: dict[str, Any] = json.loads(row["body"])
    return Run(
        **{
            **body,
            "phase": Phase(body["phase"]),
            "outcome": _outcome(body["outcome"]),
            "original_outcome": _outcome(body["original_outcome"]),
            "parameters": tuple(body["parameters"]),
            "python_params": tuple(body.get("python_params", ())),
            "repairs": tuple(_repair(item) for item in body["repairs"]),
        }
    )


def _repair(body: Mapping[str, Any]) -> Repair:
    return Repair(**{**body, "outcome": _outcome(body["outcome"])})


def _attempt(row: sqlite3.Row) -> Attempt:
    body: dict[str, Any] = json.loads(row["body"])
    return Attempt(**{**body, "phase": Phase(body["phase"]), "outcome": _outcome(body["outcome"])})


def _outcome(value: str | None) -> Outcome | None:
    return None if value is None else Outcome(value)
