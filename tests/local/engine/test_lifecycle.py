"""Cancelling, dying, starting again: nothing of a run goes on, and nothing outlives the deployment."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from databricks_bridge.local.engine.errors import EngineError

from .lab import Lab, until

pytestmark = pytest.mark.spark

ENDLESS = """
lab_query = (spark.readStream.format("rate").option("rowsPerSecond", 5).load().writeStream
    .foreachBatch(lambda batch, number: (batch.count(), print("batch", number)))
    .option("checkpointLocation", "/Volumes/main/landing/endless/_checkpoints/" + dbutils.widgets.get("name")).start())
"""
SLOW_JOB = """
from pyspark.sql import functions as F
import threading
print("begun", flush=True)
slow = "SELECT count(*) FROM range(0, 100000000000) WHERE hash(id) % 1000003 = hash(id * 7) % 1000003"
threading.Thread(target=lambda: spark.sql(slow).collect()).start()
spark.sql(slow).collect()
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


def streams(lab: Lab) -> int:
    return int(lab.call(lab.engine.active_streams()))


def test_cancelling_in_the_middle_of_a_stream_leaves_no_stream(lab: Lab) -> None:
    lab.volume("main.landing.endless")
    run = lab.begin(ENDLESS, name="cancelled")
    until(lambda: "batch 1" in lab.last_log, 90)
    assert streams(lab) == 1
    notebook = lab.engine.pids[2]
    run.cancel()
    until(lambda: streams(lab) == 0)
    until(lambda: not alive(notebook))


def test_killing_the_notebooks_process_stops_its_stream_and_not_another(lab: Lab) -> None:
    lab.volume("main.landing.endless")
    kept = lab.begin(ENDLESS, name="kept")
    until(lambda: "batch 1" in lab.last_log, 90)
    killed = lab.begin(ENDLESS, name="killed")
    until(lambda: "batch 1" in lab.last_log, 90)
    assert streams(lab) == 2
    os.kill(lab.engine.pids[3], signal.SIGKILL)
    assert killed.result(60).error == (
        "NotebookProcessDied: the notebook's process was killed (signal 9, which the system sends when the machine's "
        "memory is full) and left no result"
    )
    assert streams(lab) == 1
    kept.cancel()
    until(lambda: streams(lab) == 0)


def test_cancelling_cancels_the_jobs_of_every_thread(lab: Lab) -> None:
    count = "dbutils.notebook.exit(str(len(sc._jsc.sc().statusTracker().getActiveJobIds())))"
    run = lab.begin(SLOW_JOB)
    until(lambda: "begun" in lab.last_log, 60)
    until(lambda: lab.value(count) == "2", 60)
    run.cancel()
    until(lambda: lab.value(count) == "0", 30)


def test_a_jvm_that_dies_fails_the_run_and_starts_again(lab: Lab) -> None:
    run = lab.begin("print('begun', flush=True)\nimport time\nwhile True: time.sleep(0.1)")
    until(lambda: "begun" in lab.last_log, 60)
    notebook = lab.engine.pids[2]
    os.kill(lab.engine.pids[1], signal.SIGKILL)
    assert run.result(60).error == (
        "EngineLost: the Spark JVM was killed (signal 9, which the system sends when the machine's memory is full) "
        "while the notebook ran; it is started again for the next run"
    )
    assert not alive(notebook)
    assert lab.value("dbutils.notebook.exit(str(spark.range(3).count()))") == "3"


def test_sigkill_of_the_deployment_leaves_no_process(lab: Lab, tmp_path: Path) -> None:
    program = tmp_path / "deployment.py"
    program.write_text(
        textwrap.dedent("""
            import asyncio, sys
            from pathlib import Path
            from databricks_bridge.local.engine import NotebookRun, SparkEngine
            from databricks_bridge.local.engine.jars import prepare

            async def main(home):
                engine = SparkEngine(home / "engine", prepare(print))
                await engine.start()
                (home / "n.py").write_text("print('begun', flush=True)\\nimport time\\nwhile True: time.sleep(0.1)")
                run = asyncio.create_task(engine.run(NotebookRun(1, "t", home / "m", home / "v", home / "n.py", {}, "", "",
                    home / "log")))
                while not (home / "log").exists() or "begun" not in (home / "log").read_text():
                    await asyncio.sleep(0.1)
                print("pids", *engine.pids, flush=True)
                await run

            asyncio.run(main(Path(sys.argv[1])))
        """)
    )
    deployment = subprocess.Popen([sys.executable, program, tmp_path], stdout=subprocess.PIPE, text=True)
    assert deployment.stdout is not None
    line = next(line for line in deployment.stdout if line.startswith("pids"))
    pids = [int(pid) for pid in line.split()[1:]]
    assert len(pids) == 4
    assert all(alive(pid) for pid in pids)
    os.kill(pids[1], signal.SIGSTOP)  # a JVM that collects garbage without end notices as little
    deployment.kill()
    deployment.wait()
    until(lambda: not any(alive(pid) for pid in pids))


def test_no_two_runs_draw_the_same_random_numbers(lab: Lab) -> None:
    """Their processes are forked from one, which has a state of its own."""
    draw = "import random, numpy\ndbutils.notebook.exit(f'{random.random()} {numpy.random.rand()}')"
    first, second = (lab.value(draw).split() for _ in range(2))
    assert not set(first) & set(second)


def test_close_ends_what_runs_and_start_begins_anew(lab: Lab) -> None:
    run = lab.begin("print('begun', flush=True)\nimport time\nwhile True: time.sleep(0.1)")
    until(lambda: "begun" in lab.last_log, 60)
    pids = lab.engine.pids
    lab.call(lab.engine.close())
    lab.call(lab.engine.close())
    assert run.result(30).error == "EngineClosed: the local workspace was stopped while the notebook ran"
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(EngineError, match="call start"):
        lab.run("1")
    lab.call(lab.engine.start())
    assert lab.value("dbutils.notebook.exit('again')") == "again"


def test_a_cancelled_run_raises_cancelled_error(lab: Lab) -> None:
    async def cancelled() -> bool:
        task = asyncio.create_task(lab.engine.run(request))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False

    request = lab.request("1")
    assert lab.call(cancelled())
