"""The state of a deployment in one SQLite file: jobs, trigger state, holds, workspaces and their credentials.

Runs have their own statements in `runs/records.py`. Writes go through `Store.transaction()`: one writer at a time,
all or nothing, kept whatever ends the process. What is read outside a transaction is as of the last commit.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.runs.starts import starting_part

SCHEMA_VERSION = 3
FIRST_JOB_ID = 100_000_000_001
FIRST_RUN_ID = 500_000_000_001

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE workspaces (
  name TEXT PRIMARY KEY, workspace_id INTEGER NOT NULL UNIQUE,
  token TEXT NOT NULL, client_id TEXT NOT NULL, client_secret TEXT NOT NULL
);
CREATE TABLE oauth_tokens (digest TEXT PRIMARY KEY, workspace TEXT NOT NULL, expires_at REAL NOT NULL);
CREATE TABLE jobs (
  job_id INTEGER PRIMARY KEY, workspace TEXT NOT NULL, created_time INTEGER NOT NULL, settings TEXT NOT NULL,
  trigger_set_at INTEGER NOT NULL, trigger_revision INTEGER NOT NULL
);
CREATE TABLE job_changes (
  number INTEGER PRIMARY KEY AUTOINCREMENT, job_id INTEGER NOT NULL, workspace TEXT NOT NULL, at INTEGER NOT NULL,
  deleted INTEGER NOT NULL, settings TEXT NOT NULL
);
CREATE TABLE trigger_states (job_id INTEGER PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE runs (
  run_id INTEGER PRIMARY KEY, workspace TEXT NOT NULL, job_id INTEGER, run_type TEXT NOT NULL,
  phase TEXT NOT NULL, start_time INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX runs_by_start ON runs (workspace, start_time DESC, run_id DESC);
CREATE INDEX runs_by_job ON runs (job_id, phase);
CREATE TABLE attempts (
  run_id INTEGER PRIMARY KEY, job_run_id INTEGER NOT NULL, phase TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX attempts_by_run ON attempts (job_run_id, run_id);
CREATE TABLE run_ends (
  number INTEGER PRIMARY KEY AUTOINCREMENT, job_id INTEGER NOT NULL, end_time INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX run_ends_by_job ON run_ends (job_id, number);
CREATE TABLE run_tokens (
  workspace TEXT NOT NULL, token TEXT NOT NULL, run_id INTEGER NOT NULL, PRIMARY KEY (workspace, token)
);
CREATE TABLE holds (
  hold_id INTEGER PRIMARY KEY, workspace TEXT NOT NULL, job_name TEXT NOT NULL, at TEXT NOT NULL,
  state TEXT NOT NULL, run_id INTEGER
);
"""
# Not part of the schema's version: a file that has none gets it when it is opened.
_INDICES = """
CREATE INDEX IF NOT EXISTS attempts_by_parent
  ON attempts (job_run_id, ifnull(json_extract(body, '$.parent'), 0), json_extract(body, '$.iteration'), run_id);
"""


class StoreError(BridgeError):
    """The state file cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Job:
    """A job as it is kept. Times are epoch milliseconds; `settings` is what jobs/get shows.

    `trigger_set_at` is when what starts the job was last set: created, changed, paused or resumed. `trigger_revision`
    counts these, from 1, so that a trigger which is set back to what it was is still another one.
    """

    job_id: int
    workspace: str
    created_time: int
    settings: Mapping[str, Any]
    trigger_set_at: int
    trigger_revision: int

    @property
    def name(self) -> str:
        return str(self.settings.get("name", "Untitled"))


@dataclass(frozen=True)
class JobChange:
    """That a job was made, changed or deleted `at` (epoch milliseconds); `settings` are those after it, or its last."""

    job_id: int
    workspace: str
    at: int
    deleted: bool
    settings: Mapping[str, Any]


class Store:
    """An open state file. Safe to share between threads; meant to be owned by one process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._lock = threading.RLock()
        self._depth = 0
        # Autocommit: transactions are begun by `transaction` alone, never implicitly by the driver.
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StoreError(f"{path} cannot be read as the state of a deployment ({error}); move it away") from None
        # Survives the end of the process, however it ends; a power cut may lose the last moment.
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA busy_timeout=5000")
        self._open_schema(path)

    def _open_schema(self, path: Path) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == SCHEMA_VERSION:
            self._db.executescript(_INDICES)
            return
        if version != 0:
            raise StoreError(
                f"{path} was written by another release (schema {version}, this one reads {SCHEMA_VERSION}); "
                "delete the deployment's home folder or use the release that wrote it"
            )
        # executescript commits by itself, so the version goes last: a file without it is made anew.
        self._db.executescript(f"BEGIN;{_SCHEMA}{_INDICES}PRAGMA user_version={SCHEMA_VERSION};COMMIT;")

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. Entered again inside itself it joins the outer one."""
        with self._lock:
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield self._db
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._db.execute("COMMIT")

    def query(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(sql, parameters).fetchall()

    def next_id(self, kind: str, first: int) -> int:
        """The next number of a counter; never given twice, not even for what has been deleted."""
        return self._next_ids(kind, first, 1)[0]

    def next_run_id(self) -> int:
        """Job runs, task runs and repairs draw from one counter, as on Databricks no two of them agree."""
        return self.next_run_ids(1)[0]

    def next_run_ids(self, count: int) -> range:
        return self._next_ids("run", FIRST_RUN_ID, count)

    def _next_ids(self, kind: str, first: int, count: int) -> range:
        with self.transaction() as db:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (kind,)).fetchone()
            start = first if row is None else int(row["value"]) + 1
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (kind, start + count - 1))
            return range(start, start + count)

    # Jobs

    def add_job(self, workspace: str, settings: Mapping[str, Any], created_time: int) -> Job:
        with self.transaction() as db:
            job = Job(self.next_id("job", FIRST_JOB_ID), workspace, created_time, settings, created_time, 1)
            row = (job.job_id, workspace, created_time, _json(settings), job.trigger_set_at, job.trigger_revision)
            db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?)", row)
            self._keep_change(job, settings, created_time)
            return job

    def job(self, job_id: int, workspace: str | None = None) -> Job | None:
        """The job, or None; with `workspace`, None too for a job of another one."""
        rows = self.query("SELECT * FROM jobs WHERE job_id = ?", (job_id,))
        return _job(rows[0]) if rows and workspace in (None, rows[0]["workspace"]) else None

    def jobs(self, workspace: str | None = None) -> list[Job]:
        """Newest first, as jobs/list gives them; of one workspace or of all."""
        if workspace is None:
            rows = self.query("SELECT * FROM jobs ORDER BY job_id DESC")
        else:
            rows = self.query("SELECT * FROM jobs WHERE workspace = ? ORDER BY job_id DESC", (workspace,))
        return [_job(row) for row in rows]

    def change_job(self, job_id: int, settings: Mapping[str, Any], at: int) -> None:
        """Replace the settings. Where what starts the job changes with them, its trigger is set anew, at `at`.

        The state of the trigger before is forgotten then. A job that is gone is not an error.
        """
        with self.transaction() as db:
            job = self.job(job_id)
            if job is None:
                return
            db.execute("UPDATE jobs SET settings = ? WHERE job_id = ?", (_json(settings), job_id))
            if settings != job.settings:
                self._keep_change(job, settings, at)
            if starting_part(settings) != starting_part(job.settings):
                db.execute(
                    "UPDATE jobs SET trigger_set_at = ?, trigger_revision = trigger_revision + 1 WHERE job_id = ?",
                    (at, job_id),
                )
                db.execute("DELETE FROM trigger_states WHERE job_id = ?", (job_id,))

    def remove_job(self, job_id: int, at: int) -> None:
        """Delete a job, at this time. One that is gone is not an error."""
        with self.transaction() as db:
            job = self.job(job_id)
            if job is None:
                return
            self._keep_change(job, job.settings, at, deleted=True)
            db.execute("DELETE FROM jobs WHERE job_id = ?", (job_id,))
            db.execute("DELETE FROM trigger_states WHERE job_id = ?", (job_id,))

    def job_changes(self) -> list[JobChange]:
        """What has become of all jobs of all workspaces, in the order in which it did."""
        return [
            JobChange(row["job_id"], row["workspace"], row["at"], bool(row["deleted"]), json.loads(row["settings"]))
            for row in self.query("SELECT * FROM job_changes ORDER BY number")
        ]

    def _keep_change(self, job: Job, settings: Mapping[str, Any], at: int, *, deleted: bool = False) -> None:
        with self.transaction() as db:
            db.execute(
                "INSERT INTO job_changes (job_id, workspace, at, deleted, settings) VALUES (?, ?, ?, ?, ?)",
                (job.job_id, job.workspace, at, deleted, _json(settings)),
            )

    # Trigger state: kept for one trigger, forgotten with it.

    def trigger_state(self, job_id: int) -> dict[str, Any] | None:
        """What was kept for the job's present trigger, else None."""
        rows = self.query("SELECT state FROM trigger_states WHERE job_id = ?", (job_id,))
        return dict(json.loads(rows[0]["state"])) if rows else None

    def save_trigger_state(self, job_id: int, revision: int, state: Mapping[str, Any]) -> bool:
        """Keep the state of this revision of the trigger; False, and nothing is kept, when there is a newer one."""
        with self.transaction() as db:
            job = self.job(job_id)
            if job is None or job.trigger_revision != revision:
                return False
            db.execute("INSERT OR REPLACE INTO trigger_states VALUES (?, ?)", (job_id, _json(state)))
            return True


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _job(row: sqlite3.Row) -> Job:
    return Job(
        row["job_id"],
        row["workspace"],
        row["created_time"],
        json.loads(row["settings"]),
        row["trigger_set_at"],
        row["trigger_revision"],
    )
