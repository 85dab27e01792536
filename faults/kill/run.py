"""Plays the cells, each with a subscription of its own, prints what came of each, and judges by the workspace's runs."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from databricks_bridge.core.parameter_names import names_of
from databricks_bridge.core.sources import DeltaTable
from demo.places import Places
from faults.checker import Evidence, Verdict, judge, newest_data
from faults.kill.cells import AROUND, PROCESSES, RUN_IS_OVER, STEPS, Cell, wanted
from faults.kill.world import World, until

Json = dict[str, Any]
STOPS_WITHIN, ENDS_WITHIN = 120.0, 240.0
MORE_RUNS = 4
"""So many more DAG runs may be needed until everything is processed; one that fails is one of them."""


@dataclass
class Told:
    """What came of one cell."""

    cell: Cell
    verdict: Verdict = field(default_factory=Verdict)
    tries: int = 0
    runs: int = 0
    seconds: float = 0.0
    wrong: str = ""

    def __str__(self) -> str:
        if self.wrong:
            return "BROKEN"
        return f"{'ok' if self.verdict.clean else 'WRONG'} {self.tries}t {self.runs}r"


def play(world: World, cell: Cell) -> Told:
    """One cell: the consumer stops, new data comes, the process dies and is started again, and everything goes on."""
    told, began = Told(cell), time.monotonic()
    foreign = 0
    try:
        job_id = _furnish(world, cell)
        foreign = _start_foreign(world, cell, job_id)
        if cell.step not in RUN_IS_OVER:
            (world.holds / cell.name).touch()
        (world.gates / f"{cell.name}.armed").write_text("" if cell.deferred else cell.step)
        first = _start(world, cell)
        _wait_for_stop(world, cell, first)
        _commit(world, cell, 2)
        _strike(world, cell)
        (world.gates / f"{cell.name}.go").touch()
        (world.holds / cell.name).unlink(missing_ok=True)
        _wait_for_end(world, cell, first)
        told.tries = int(world.airflow.task(cell.name, first, cell.task)["try_number"])
        if cell.step == "end" or cell.around:
            _check_told(world, cell, first)
        world.healthy()
        for _ in range(MORE_RUNS):
            if _finished(world, cell):
                break
            _wait_for_end(world, cell, _start(world, cell))
        (world.holds / f"{cell.name}.foreign").unlink()
        until(lambda: bool(_run(world, foreign)["state"].get("result_state")), "the foreign run's end", 60)
        _judge(world, cell, told, job_id, foreign)
    except (TimeoutError, RuntimeError, OSError) as error:
        told.wrong = f"{type(error).__name__}: {error}"
    finally:
        for file in (world.holds / cell.name, world.holds / f"{cell.name}.foreign"):
            file.unlink(missing_ok=True)
        (world.gates / f"{cell.name}.go").touch()
        world.sweep()
    told.seconds = time.monotonic() - began
    return told


def _furnish(world: World, cell: Cell) -> int:
    source = base64.b64encode(b"# Databricks notebook source\n").decode()
    notebook = {"path": f"/{cell.name}", "content": source, "format": "SOURCE", "language": "PYTHON", "overwrite": True}
    world.ops.post("/api/2.0/workspace/import", notebook)
    task = {"task_key": "main", "notebook_task": {"notebook_path": f"/{cell.name}"}}
    names = names_of([DeltaTable(cell.table, alias="t0")], ())
    declared = [{"name": one, "default": ""} for one in sorted(names)]
    settings = {"name": cell.name, "tasks": [task], "parameters": declared, "max_concurrent_runs": 5}
    for version in range(2):
        _commit(world, cell, version)
    return int(world.ops.post("/api/2.2/jobs/create", {**settings, "queue": {"enabled": True}})["job_id"])


def _commit(world: World, cell: Cell, version: int) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    path = world.places.table("ops", cell.table)
    write_deltalake(path, pa.table({"n": [version]}), mode="append")
    assert newest_data(path / "_delta_log") == version


def _start_foreign(world: World, cell: Cell, job_id: int) -> int:
    (world.holds / f"{cell.name}.foreign").touch()
    return int(world.ops.post("/api/2.2/jobs/run-now", {"job_id": job_id})["run_id"])


def _start(world: World, cell: Cell) -> str:
    return str(world.call(f"/api/v2/dags/{cell.name}/dagRuns", {"logical_date": None})["dag_run_id"])


def _wait_for_stop(world: World, cell: Cell, run_id: str) -> None:
    def stopped() -> bool:
        ended = {run["state"] for run in world.airflow.dag_runs(cell.name)} & {"success", "failed"}
        if ended:
            raise RuntimeError(f"the consumer never stood before {cell.step}: its DAG run ended with {ended.pop()}")
        return (world.gates / f"{cell.name}.stopped").exists()

    if not cell.deferred:
        until(stopped, f"the stop before {cell.step}", STOPS_WITHIN)
        return

    def waits() -> bool:
        task = world.airflow.task(cell.name, run_id, "consume")
        return task["state"] == "deferred" and bool((task.get("trigger") or {}).get("triggerer_id"))

    until(waits, "the deferred wait", STOPS_WITHIN)


def _strike(world: World, cell: Cell) -> None:
    if cell.process in ("task", "worker", AROUND):
        stopped = json.loads((world.gates / f"{cell.name}.stopped").read_text())
        process = psutil.Process(stopped["parent" if cell.process == "worker" else "pid"])
        line = " ".join(process.cmdline())
        if os.getsid(process.pid) not in world.sessions or ("LocalExecutor" in line) is not (cell.process == "worker"):
            raise RuntimeError(f"process {process.pid} is no {cell.process} of ours: {line}")
        os.kill(process.pid, signal.SIGKILL)
        return
    world.kill(cell.process)
    world.start(cell.process)


def _wait_for_end(world: World, cell: Cell, run_id: str) -> None:
    def over() -> bool:
        runs = world.airflow.dag_runs(cell.name)
        return any(run["dag_run_id"] == run_id and run["state"] in ("success", "failed") for run in runs)

    until(over, f"the end of DAG run {run_id}", ENDS_WITHIN)


def _check_told(world: World, cell: Cell, run_id: str) -> None:
    """The commit, whose word was lost, is the result of the task all the same: its ranges in XCom, and the next task runs."""
    state = world.airflow.task(cell.name, run_id, "after")["state"]
    if state != "success":
        raise RuntimeError(f"the task after the commit is {state}")
    committing = f"commit_{cell.name}" if cell.around else cell.task
    handed_on = world.airflow.xcoms(cell.name, run_id, committing).get("return_value") or {}
    handed_on = json.loads(handed_on) if isinstance(handed_on, str) else handed_on
    ranges = [(one["alias"], one["from"]["version"], one["to"]["version"]) for one in handed_on.get("ranges", ())]
    # The claim is older than version 2, but where it was not written before the task died.
    if ranges not in ([("t0", -1, 1)], [("t0", -1, 2)] if cell.step == "claim" else []):
        raise RuntimeError(f"the task that committed handed on {handed_on}")


def _works(world: World, cell: Cell) -> list[Json]:
    """External work as runs for the checker: one for each claim's id, and one more for an id that came with another range."""
    works = [json.loads(line) for line in (world.gates / f"{cell.name}.works").read_text().splitlines()]
    told = sorted({(one["claim"], tuple(sorted(one["parameters"].items()))) for one in works})
    return [
        {
            "run_id": -at,
            "start_time": 2 * at,
            "end_time": 2 * at + 1,
            "state": {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"},
            "job_parameters": [{"name": name, "value": value} for name, value in parameters],
        }
        for at, (_, parameters) in enumerate(told, 1)
    ]


def _finished(world: World, cell: Cell) -> bool:
    record = world.record(cell.name)
    if record is None or record["claim"]:
        return False
    mark = record["watermarks"].get("t0")
    return mark is not None and mark["version"] >= newest_data(world.places.table("ops", cell.table) / "_delta_log")


def _run(world: World, run_id: int) -> Json:
    return world.ops.get("/api/2.2/jobs/runs/get", run_id=run_id, include_history=True)


def _judge(world: World, cell: Cell, told: Told, job_id: int, foreign: int) -> None:
    runs = world.ops.get("/api/2.2/jobs/runs/list", job_id=job_id, limit=24).get("runs", [])[::-1]
    runs = [_run(world, run["run_id"]) for run in runs]
    runs += _works(world, cell) if cell.around else []
    logs = {"t0": world.places.table("ops", cell.table) / "_delta_log"}
    # The workspace that dies takes the notebooks with it that are at work.
    due = "FAILED" if cell.process == "workspace" else "SUCCESS"
    told.runs = len(runs) - 1
    seen = Evidence(cell.name, runs, logs, world.record(cell.name), {foreign: due}, frozenset(), True, True)
    told.verdict = judge(seen)


def table(outcomes: Mapping[str, Told]) -> str:
    """Process by step: t is how many tries the task took, r how many runs there were for the two ranges, or the one."""
    lines = ["".join([f"{'killed before':<14}", *(f"{step:>12}" for step in (*STEPS, "work"))])]
    for process in (*PROCESSES, AROUND):
        cells = [outcomes.get(Cell(process, step).name) for step in (*STEPS, "work")]
        lines.append("".join([f"{process:<14}", *(f"{'' if one is None else str(one):>12}" for one in cells)]))
    return "\n".join(lines)


@contextmanager
def _home(keep: bool) -> Iterator[str]:
    """A folder for all of it, kept with its logs when asked to."""
    home = tempfile.mkdtemp(prefix="databricks-bridge-kill-")
    try:
        yield home
    finally:
        print(f"faults: kept {home}", flush=True) if keep else shutil.rmtree(home, ignore_errors=True)


def main(given: Mapping[str, str]) -> int:
    cells, began = wanted(given.get("ONLY") or ""), time.monotonic()
    print(f"faults: kill -9 in {len(cells)} cells, on real Airflow", flush=True)
    outcomes: dict[str, Told] = {}
    keep = bool(given.get("KEEP"))
    with _home(keep) as home:
        world = World(Places(Path(home)))
        try:
            world.up()
            names = {cell.name for cell in cells}
            until(lambda: names <= world.airflow.dag_ids(), "the DAGs", 180)
            for cell in cells:
                world.healthy()
                told = outcomes[cell.name] = play(world, cell)
                print(f"faults: {cell.process}:{cell.step} {told}, {told.seconds:.0f} s {told.wrong}", flush=True)
                for line in told.verdict.lines:
                    print(f"  {line} (make faults KILL=1 ONLY={cell.process}:{cell.step})", flush=True)
        finally:
            world.stop()
    found = Verdict()
    for told in outcomes.values():
        found.merge(told.verdict)
    broken = [told for told in outcomes.values() if told.wrong]
    print(table(outcomes))
    print(
        f"faults: {time.monotonic() - began:.0f} s, cells that did not end {len(broken)}, other errors {found.errors}"
    )
    print(
        f"cells {len(outcomes)}, ranges lost {found.lost}, doubled {found.doubled}, runs started twice {found.twice}, "
        f"foreign runs touched {found.touched}"
    )
    return 0 if found.clean and not broken else 1
