"""What a DAG file pays for our names: seconds and memory of the import, and the time to parse 200 subscriptions.

Each number is CPU time, the least of several fresh processes, taken in turns with what it is compared with: what other
work on the machine adds is no property of the code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, number

RUNS = 15
SUBSCRIPTIONS = 200
# The names of airflow.sdk that any operator, sensor and asset needs: airflow.sdk itself loads nothing before it is asked.
_BASE = "from airflow.sdk import DAG, Asset, AssetWatcher, BaseOperator, BaseOperatorLink, BaseSensorOperator\n"
_IMPORT = """
import gc, json, time
from pathlib import Path
def pss():
    gc.collect()
    return int(next(l for l in Path("/proc/self/smaps_rollup").read_text().splitlines() if l.startswith("Pss:")).split()[1])
memory, started = pss(), time.process_time()
from databricks_bridge import (
    DatabricksIncrementalRunOperator, DatabricksSubscriptionSensor, DatabricksTriggeredRunSensor,
    DeltaTable, Subscription, TriggeredRuns,
)
seconds = time.process_time() - started
print(json.dumps([seconds, pss() - memory]))
"""
_PARSE = """
import json, runpy, sys, time
started = time.process_time()
found = runpy.run_path(sys.argv[1])
seconds = time.process_time() - started
assert len(found["dags"]) == {count}, len(found["dags"])
print(json.dumps(seconds))
"""
_FILE = """
from datetime import timedelta
from airflow.sdk import DAG
from databricks_bridge import DeltaTable, Subscription
{imports}
dags = []
for n in range({count}):
    flow = Subscription(
        f"flow_{{n}}",
        sources=[DeltaTable(f"main.silver.a{{n}}", databricks_conn_id="ops"), DeltaTable(f"main.silver.b{{n}}")],
        start="latest",
        min_time_between_triggers=timedelta(minutes=10),
    )
    with DAG(f"flow_{{n}}", schedule="@continuous", max_active_runs=1) as dag:
        {tasks}
    dags.append(dag)
"""
_OURS = (
    "from databricks_bridge import DatabricksIncrementalRunOperator, DatabricksSubscriptionSensor",
    'DatabricksSubscriptionSensor(task_id="changed", subscription=flow, deferrable=True) >> '
    'DatabricksIncrementalRunOperator(task_id="build", subscription=flow, job_name=f"job_{n}")',
)
_EMPTY = (
    "from airflow.providers.standard.operators.empty import EmptyOperator",
    'EmptyOperator(task_id="changed") >> EmptyOperator(task_id="build")',
)


def measure() -> list[Figure]:
    """Milliseconds, MB (PSS) and the ratio of the two parses."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, (load, tasks) in (("ours", _OURS), ("empty", _EMPTY)):
            files[name] = Path(folder, f"{name}.py")
            files[name].write_text(_FILE.format(imports=load, tasks=tasks, count=SUBSCRIPTIONS))
        imports: list[tuple[float, float]] = []
        parses: dict[str, list[float]] = {name: [] for name in files}
        parse = _BASE + _PARSE.format(count=SUBSCRIPTIONS)
        for _ in range(RUNS):
            imports.append(tuple(_python(folder, _BASE + _IMPORT)))
            for name, file in files.items():
                parses[name].append(_python(folder, parse, str(file)))
    seconds, kilobytes = min(run[0] for run in imports), min(run[1] for run in imports)
    ours, empty = min(parses["ours"]), min(parses["empty"])
    print(
        f"import: {SUBSCRIPTIONS} subscriptions parse in {number(ours)} s, the same with EmptyOperator in {number(empty)} s"
    )
    return [
        Figure("ms over airflow.sdk", seconds * 1000, most=30),
        Figure("MB over airflow.sdk", kilobytes / 1024, most=5),
        Figure("of the same file with EmptyOperator", ours / empty, most=1.2),
    ]


def _python(home: str, program: str, *arguments: str) -> Any:
    """What the program prints, as JSON, from a process of its own with an empty Airflow home."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env = kept | {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=env, capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        raise RuntimeError(f"a measured process failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
