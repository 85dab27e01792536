"""Ten thousand tables in four hundred watched subscriptions, in the event loop of one triggerer, each polled once in 30 s.

The tables are folders of this machine, so that the store adds nothing but its reads.
"""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.children import child, cpu_seconds, line_of, say, sleep_until
from benchmarks.figures import Figure, number
from benchmarks.lake import commit, make_tables

SUBSCRIPTIONS, EACH, SCHEMAS = 400, 25, 20
TABLES = SUBSCRIPTIONS * EACH
POLL_SECONDS = 30.0
POLLS = 3
COMMITS = 300


def measure() -> list[Figure]:
    """Cores used, MB over an empty triggerer, and the delay from commit to event over the poll."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_tables(root, TABLES)
        with child("benchmarks.lake", folder, str(TABLES), str(SCHEMAS)) as catalog:
            port = line_of(catalog)
            connection = {"conn_type": "databricks", "host": "http://127.0.0.1", "port": int(port), "password": "t0ken"}
            env = {"AIRFLOW_CONN_OPS": json.dumps(connection), "AIRFLOW_HOME": folder, "NO_PROXY": "127.0.0.1"}
            shape = (str(SUBSCRIPTIONS), str(EACH), str(SCHEMAS), str(POLL_SECONDS))
            with child("benchmarks.watcher_process", *shape, env=env) as watcher:
                ready = json.loads(line_of(watcher))
                if ready["errors"]:
                    raise RuntimeError(f"{ready['errors']} tables cannot be read")
                delays, cores, memory = _window(root, watcher, ready["pid"])
            calls = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/counts"))
    delays.sort()
    late = delays[min(len(delays) - 1, int(len(delays) * 0.99))]
    print(
        f"watch-10k: {TABLES:,} tables known after {number(ready['ready'])} s and {calls} calls to the catalog; delays of "
        f"{len(delays)} commits: median {number(delays[len(delays) // 2])} s, p99 {number(late)} s"
    )
    return [
        Figure("cores", cores, most=0.5),
        Figure("MB over an empty triggerer", memory, most=55),
        Figure("s beyond one poll, p99", max(0.0, late - POLL_SECONDS), most=1),
        Figure("commits never told", COMMITS - len(delays), most=0),
    ]


def _window(root: Path, watcher: Any, pid: int) -> tuple[list[float], float, float]:
    """Commits at random moments of some polls, each in another subscription."""
    events: dict[int, float] = {}
    last: dict[str, float] = {}

    def read() -> None:
        while "done" not in last:
            said = json.loads(line_of(watcher))
            if "event" in said:
                events.setdefault(said["event"], said["at"])
            else:
                last.update(said)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    seconds = POLL_SECONDS * POLLS
    chosen = random.Random(7).sample(range(SUBSCRIPTIONS), COMMITS)
    began, cpu = time.monotonic(), cpu_seconds(pid)
    committed: dict[int, float] = {}
    for at, subscription in enumerate(chosen):
        sleep_until(began + seconds * at / COMMITS)
        commit(root, subscription * EACH + at % EACH, 1)
        committed[subscription] = time.time()
    sleep_until(began + seconds)
    cores = (cpu_seconds(pid) - cpu) / (time.monotonic() - began)
    sleep_until(began + seconds + POLL_SECONDS + 5)
    say(watcher, "stop")
    reader.join(30)
    delays = [events[one] - at for one, at in committed.items() if one in events]
    return delays, cores, float(last["memory"])
