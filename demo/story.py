"""The story, leg by leg. Every wait shows what is going on and fails at once when a process or a job has died."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from demo import airflow_home, deploy, waves
from demo.airflow_api import AirflowApi
from demo.airflow_home import AirflowHome
from demo.databricks_api import Workspace, succeeded, workspaces
from demo.evidence import gold_run
from demo.places import AUDIT_DAG, GOLD_DAG, GOLD_JOB, GOLD_TASK, ROOT, WORKSPACES, DemoFailed, Places
from demo.processes import Services, last_line, wait_until
from demo.ui import Progress
from demo.watch import DagWatch, Watch

# The declared switch of the local deployment: Databricks' 60 s floor for trigger timers becomes 3 s.
TIME_SCALE = 0.05
# Seconds for one wait. Far more than any needs, because a failed demo is no answer to a busy machine.
PATIENCE = 300


@dataclass(frozen=True)
class World:
    """All that is up and running."""

    airflow_home: AirflowHome
    airflow: AirflowApi
    workspaces: Mapping[str, Workspace]


def _import_slow_modules() -> None:
    """These take seconds on a busy machine, and the driver has nothing else to do while the processes start."""
    for name in ("databricks.sdk.service.jobs", "databricks.sdk.service.workspace", "deltalake", "pandas"):
        import_module(name)


@dataclass(frozen=True)
class RunningTask:
    """A try of the gold task, and the process that it runs in."""

    dag_run: str
    try_number: int
    pid: int


class Story:
    """Drives the demo. `services` is the caller's, who stops them however this ends."""

    def __init__(self, places: Places, services: Services, progress: Progress) -> None:
        self._places = places
        self._services = services
        self._progress = progress
        self._watch: Watch | None = None
        self._dags: DagWatch | None = None
        self._waits_for = ""

    def tell(self) -> World:
        """The whole story, up to the moment when everything that landed has reached gold."""
        world = self._start()
        first = self._hold(world)
        self._land(world, 1)
        with self._progress.leg("Airflow comes up, while Databricks works on wave 1 by itself"):
            self._wait(lambda: self._airflow_ready(world), "Airflow")
        self._dags = DagWatch(world.airflow, self._places.airflow / "logs")
        self._progress.say(
            "a declared test switch of the local workspace holds a gold run between its start and its notebook"
        )
        held = self._held_run(world, first, "Airflow starts the first gold run, which is held there")
        self._land(world, 2)
        with self._progress.leg("wave 2 is committed to silver while the gold run is under way"):
            self._wait(lambda: self._is_overtaken(world, held), "a newer silver version")
        second = self._hold(world)
        with self._progress.leg("the gold run is let go, and commits"):
            self._release(world, first)
            self._wait(lambda: succeeded(world.workspaces["analytics"].run(held)), "the first gold run")
        self._kill(world, second)
        self._land(world, 3)
        with self._progress.leg("everything that landed reaches gold"):
            self._wait(self._settled, "all to be quiet")
        return world

    def _start(self) -> World:
        places = self._places
        home = airflow_home.prepare(places)
        with self._progress.leg("three local workspaces start, each with its own metastore"):
            arguments = [part for name in WORKSPACES for part in ("--workspace", name)]
            self._services.start(
                "local",
                [
                    *(sys.executable, "-m", "databricks_bridge.local", "--home", str(places.local)),
                    *arguments,
                    *("--time-scale", str(TIME_SCALE)),
                ],
                os.environ,
                ROOT,
            )
            _import_slow_modules()
            if not airflow_home.has_database(places):
                self._make_database(home)
            self._wait(places.deployment.exists, "the local workspaces")
        self._progress.say("a local stand-in for tests and demos, not Databricks; its time runs 20 times faster")
        found = workspaces(places.deployment)
        self._services.start(
            "airflow",
            [sys.executable, "-m", "airflow", "standalone"],
            airflow_home.environment(home, places, found.values()),
            ROOT,
        )
        with self._progress.leg("the bundle is deployed: schemas, volumes, notebooks, tables, jobs, shares"):
            deploy.deploy(found.values(), self._say)
            deploy.share(found["analytics"], "ops_share", "ops")
            deploy.share(found["analytics"], "met_share", "met")
        self._watch = Watch(places, found, waves.shipped)
        return World(home, AirflowApi(home.url, airflow_home.USER, home.password), found)

    def _make_database(self, home: AirflowHome) -> None:
        environment = airflow_home.environment(home, self._places, ())
        made = self._services.start(
            "airflow-db", [sys.executable, "-m", "airflow", "db", "migrate"], environment, ROOT, once=True
        )
        self._wait(lambda: made.process.poll() is not None, "Airflow's database, made once and kept")
        if made.process.returncode != 0:
            raise DemoFailed(f"Airflow's database could not be made: {last_line(made.log)}")
        airflow_home.keep_database(self._places)

    def _land(self, world: World, wave: int) -> None:
        with self._progress.leg(f"wave {wave} lands in ops and met"):
            landed = waves.land(dict(world.workspaces), wave)
        self._progress.say(f"{landed} files; from here on Databricks' triggers take over")

    def _hold(self, world: World) -> int:
        """The next gold run will stop after its start, before its notebook. The declared switch for tests and demos."""
        body = {"job_name": GOLD_JOB, "at": "after_start"}
        return int(world.workspaces["analytics"].post("/local/holds", body)["hold_id"])

    def _release(self, world: World, hold_id: int) -> None:
        world.workspaces["analytics"].delete(f"/local/holds/{hold_id}")

    def _held_run(self, world: World, hold_id: int, title: str) -> int:
        def held() -> int | None:
            holds = world.workspaces["analytics"].get("/local/holds")["holds"]
            return next((h["run_id"] for h in holds if h["hold_id"] == hold_id and h["state"] == "holding"), None)

        with self._progress.leg(title):
            self._wait(lambda: held() is not None, "a gold run that is held")
        run_id = held()
        if run_id is None:
            raise DemoFailed(f"the hold {hold_id} ended by itself")
        return run_id

    def _is_overtaken(self, world: World, run_id: int) -> bool:
        """Whether a source has a newer version than the run has claimed. Noted for the proof."""
        analytics = world.workspaces["analytics"]
        for part in gold_run(analytics, analytics.run(run_id)).ranges:
            version = self._watching.version(part.alias)
            if version > part.end:
                self._note(overtaken={"run_id": run_id, "alias": part.alias, "version": version})
                return True
        return False

    def _note(self, **told: object) -> None:
        story = json.loads(self._places.story.read_text()) if self._places.story.exists() else {}
        self._places.story.write_text(json.dumps(story | told))

    def _kill(self, world: World, hold_id: int) -> None:
        """SIGKILL the process of the task that waits for the held run; let the run go only when it is gone."""
        run_id = self._held_run(world, hold_id, "Airflow starts the next gold run, which is held too")
        with self._progress.leg("its Airflow task is killed with SIGKILL, then the run is let go"):
            task = self._gold_task(world)
            if not self._services.owns(task.pid):
                raise DemoFailed(f"Airflow gives {task.pid} as the task's process, which is none of this demo's")
            self._note(killed={"dag_run": task.dag_run, "run_id": run_id})
            os.kill(task.pid, signal.SIGKILL)
            self._wait(lambda: not self._is_running(world, task), "Airflow to notice the kill")
            self._release(world, hold_id)
        self._progress.say(f"process {task.pid} of {task.dag_run}, which had started run {run_id}")

    def _gold_task(self, world: World) -> RunningTask:
        for dag_run in reversed(world.airflow.dag_runs(GOLD_DAG)):
            if dag_run["state"] == "running":
                task = world.airflow.task(GOLD_DAG, dag_run["dag_run_id"], GOLD_TASK)
                if task["state"] == "running":
                    return RunningTask(dag_run["dag_run_id"], int(task["try_number"]), int(task["pid"]))
        raise DemoFailed(f"a gold run is held, but no {GOLD_TASK} task is running in Airflow")

    def _is_running(self, world: World, task: RunningTask) -> bool:
        now = world.airflow.task(GOLD_DAG, task.dag_run, GOLD_TASK)
        return (now["state"], now["try_number"]) == ("running", task.try_number)

    def _airflow_ready(self, world: World) -> bool:
        missing = world.airflow.unhealthy()
        if missing:
            self._waits_for = f"Airflow's {', '.join(missing)} not up yet; "
            return False
        self._waits_for = ""
        errors = world.airflow.import_errors()
        if errors:
            raise DemoFailed(f"Airflow cannot import a DAG: {errors[0]}")
        return {GOLD_DAG, AUDIT_DAG} <= world.airflow.dag_ids()

    def _settled(self) -> bool:
        left = self._watching.unsettled()
        self._waits_for = f"{left}; " if left else ""
        return left is None

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        def meanwhile() -> None:
            self._services.check()
            if self._watch is None:
                self._say(f"waiting for {what}")
            else:
                self._watch.check()
                if self._dags is not None:
                    self._dags.check()
                self._say(self._waits_for + self._watch.describe())

        wait_until(ready, what, PATIENCE, meanwhile)

    def _say(self, detail: str) -> None:
        self._services.check()
        self._progress.now(detail)

    @property
    def _watching(self) -> Watch:
        if self._watch is None:
            raise DemoFailed("nothing is deployed yet")
        return self._watch
