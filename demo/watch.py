"""One look at everything that moves, for the progress line, for early failure, and to know when all is quiet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from demo import gold
from demo.airflow_api import AirflowApi
from demo.databricks_api import Json, Workspace, is_active, succeeded
from demo.evidence import SOURCES, gold_run
from demo.places import AUDIT_DAG, AUDIT_JOB, BRONZE_AND_SILVER, GOLD_DAG, GOLD_JOB, DemoFailed, Places
from demo.waves import Landed

KEYS = {"flights": gold.FLIGHT_KEY, "weather": gold.WEATHER_KEY}
LOOK_EVERY = 1.0  # seconds
DAGS_EVERY = 3.0  # seconds
JOBS = [
    *((workspace, job) for workspace, jobs in BRONZE_AND_SILVER.items() for job in jobs),
    ("analytics", GOLD_JOB),
    ("ops", AUDIT_JOB),
]


class Watch:
    """Looks at the runs of all jobs, at most once a second however often it is asked. `landed` says which files to wait for."""

    def __init__(
        self,
        places: Places,
        workspaces: Mapping[str, Workspace],
        landed: Callable[[], Landed],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = places
        self._workspaces = workspaces
        self._clock = clock
        self._looked = float("-inf")
        self._runs: dict[tuple[str, str], list[Json]] = {}
        self._landed = landed
        self._counted: dict[tuple[Path, ...], tuple[int, int]] = {}
        self.left: str | None = None
        """What the last look found that is still to do."""

    def describe(self) -> str:
        """How many runs of each job are done, and how many are going on."""
        self._look()
        return ", ".join(_count(job, runs) for (_, job), runs in self._runs.items() if runs) or "no run yet"

    def check(self) -> None:
        """Raises DemoFailed when a job that Databricks starts has failed: everything after it would wait in vain."""
        self._look()
        for (name, job), runs in self._runs.items():
            bad = [run for run in runs if not is_active(run) and not succeeded(run)] if job != GOLD_JOB else []
            if bad:
                workspace = self._workspaces[name]
                error = workspace.output(workspace.run(bad[0]["run_id"])).get("error", "no error text")
                raise DemoFailed(f"{name}: run {bad[0]['run_id']} of {job} failed: {error}")

    def version(self, alias: str) -> int:
        """The newest version of a source's silver table."""
        return gold.latest_version(self._places.table(*SOURCES[alias]))

    def unsettled(self) -> str | None:
        """What there is left to do, or None when everything that landed has reached gold and the audit."""
        self.left = self._unsettled()
        return self.left

    def _unsettled(self) -> str | None:
        self._look(fresh=True)
        landed = self._landed()
        for alias, (workspace, table) in SOURCES.items():
            keys, revisions = gold.revisions(self._places.table(workspace, table))
            wanted = self._wanted(tuple(landed[workspace]), KEYS[alias])
            if (keys, revisions) != wanted:
                return f"{table} has {keys} keys, revisions {revisions}; what landed has {wanted[0]}, {wanted[1]}"
        analytics = self._workspaces["analytics"]
        ends = dict.fromkeys(SOURCES, -1)
        for run in self._runs["analytics", GOLD_JOB]:
            if succeeded(run):
                for part in gold_run(analytics, analytics.run(run["run_id"])).ranges:
                    ends[part.alias] = max(ends[part.alias], part.end)
        for alias, end in ends.items():
            if end != (version := self.version(alias)):
                return f"gold has {alias} up to version {end} of {version}"
        busy = [job for (_, job), runs in self._runs.items() if any(is_active(run) for run in runs)]
        if busy:
            return f"{busy[0]} is running"
        if not any(succeeded(run) for run in self._runs["ops", AUDIT_JOB]):
            return "no bronze run is audited"
        return None

    def _wanted(self, files: tuple[Path, ...], key: str) -> tuple[int, int]:
        """(keys, sum of their revisions) of the newest records in the files."""
        if files not in self._counted:
            frame = gold.newest(files, key) if files else None
            self._counted[files] = (0, 0) if frame is None else (len(frame), int(frame["revision"].sum()))
        return self._counted[files]

    def _look(self, fresh: bool = False) -> None:
        if fresh or self._clock() - self._looked >= LOOK_EVERY:
            self._runs = {(name, job): self._workspaces[name].runs(job) for name, job in JOBS}
            self._looked = self._clock()


class DagWatch:
    """Looks whether a DAG run of the story has failed, at most every few seconds."""

    def __init__(self, airflow: AirflowApi, logs: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._airflow = airflow
        self._logs = logs
        self._clock = clock
        self._looked = float("-inf")

    def check(self) -> None:
        """Raises DemoFailed. Tries that failed and are tried again are part of the story; a failed DAG run is not."""
        if self._clock() - self._looked < DAGS_EVERY:
            return
        self._looked = self._clock()
        for dag_id in (GOLD_DAG, AUDIT_DAG):
            for run in self._airflow.dag_runs(dag_id):
                if run["state"] == "failed":
                    folder = self._logs / f"dag_id={dag_id}" / f"run_id={run['dag_run_id']}"
                    raise DemoFailed(f"a run of the DAG {dag_id} failed; its tasks' logs are in {folder}")


def _count(job: str, runs: list[Json]) -> str:
    active = sum(is_active(run) for run in runs)
    return f"{job} {len(runs) - active} done" + (f" and {active} running" if active else "")
