"""Declared stops for tests and demonstrations: the next run of a job waits at a named place until it is released."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from typing import Literal, cast

from databricks_bridge.local.store import Store

At = Literal["after_start", "after_notebook"]
PLACES: tuple[At, ...] = ("after_start", "after_notebook")


@dataclass(frozen=True)
class Hold:
    """`state` is armed, holding or released. `run_id` is the job run that is to stop, None until there is one."""

    hold_id: int
    workspace: str
    job_name: str
    at: At
    state: str
    run_id: int | None


class Holds:
    """The holds of a deployment. To be used on the event loop's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._released: dict[int, asyncio.Event] = {}

    def arm(self, workspace: str, job_name: str, at: At) -> Hold:
        hold_id = self._store.next_id("hold", 1)
        with self._store.transaction() as db:
            db.execute("INSERT INTO holds VALUES (?, ?, ?, ?, 'armed', NULL)", (hold_id, workspace, job_name, at))
        return Hold(hold_id, workspace, job_name, at, "armed", None)

    def of(self, workspace: str) -> list[Hold]:
        """All holds of a workspace, oldest first."""
        return [
            _hold(row)
            for row in self._store.query("SELECT * FROM holds WHERE workspace = ? ORDER BY hold_id", (workspace,))
        ]

    def release(self, workspace: str, hold_id: int) -> bool:
        """Let the run go on, or forget a hold that no run has reached. False when there is no such hold."""
        with self._store.transaction() as db:
            done = db.execute(
                "UPDATE holds SET state = 'released' WHERE workspace = ? AND hold_id = ?", (workspace, hold_id)
            )
        if event := self._released.get(hold_id):
            event.set()
        return done.rowcount > 0

    def release_all_holding(self) -> None:
        """After a restart nothing stands at a hold any more."""
        with self._store.transaction() as db:
            db.execute("UPDATE holds SET state = 'released' WHERE state = 'holding' OR run_id IS NOT NULL")

    def assign(self, workspace: str, job_name: str, run_id: int) -> None:
        """A run begins: the oldest armed hold of each place is meant for it and for no later run."""
        with self._store.transaction() as db:
            db.execute(
                "UPDATE holds SET run_id = ? WHERE hold_id IN (SELECT min(hold_id) FROM holds"
                " WHERE workspace = ? AND job_name = ? AND state = 'armed' AND run_id IS NULL GROUP BY at)",
                (run_id, workspace, job_name),
            )

    def drop(self, run_id: int) -> None:
        """A run has ended: what it never reached will not hold anybody."""
        with self._store.transaction() as db:
            db.execute("UPDATE holds SET state = 'released' WHERE run_id = ?", (run_id,))

    async def stop(self, run_id: int, at: At) -> None:
        """Wait here while a hold for this run and place is not released. Returns at once when there is none."""
        rows = self._store.query(
            "SELECT hold_id FROM holds WHERE run_id = ? AND at = ? AND state = 'armed'", (run_id, at)
        )
        for row in rows:
            hold_id = int(row["hold_id"])
            event = self._released.setdefault(hold_id, asyncio.Event())
            with self._store.transaction() as db:
                db.execute("UPDATE holds SET state = 'holding' WHERE hold_id = ?", (hold_id,))
            try:
                await event.wait()
            finally:
                self._released.pop(hold_id, None)


def _hold(row: sqlite3.Row) -> Hold:
    return Hold(row["hold_id"], row["workspace"], row["job_name"], cast(At, row["at"]), row["state"], row["run_id"])
