"""What one workspace and one ledger store that accept connections and never answer cost the watchers of all others.

Two triggerers watch the same tables at the same time: in one of them everything answers. Both wake for the same commits, so
that what else the machine does slows both.
"""

from __future__ import annotations

import json
import random
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen
from urllib.parse import urlsplit

from benchmarks.bucket import Bucket, Plain, serve
from benchmarks.children import child, line_of, sleep_until
from benchmarks.figures import Figure, number
from benchmarks.hung_process import ANSWERS, MAY_HANG, is_healthy, spec_of
from benchmarks.lake import commit, make_tables

WORKSPACES, EACH = 50, 5
POLL_SECONDS, POLLS = 8.0, 4


def measure() -> list[Figure]:
    """The 99th percentile of the delay from commit to event, over the one where everything answers."""
    healthy = [one for one in range(WORKSPACES * EACH) if is_healthy(one, WORKSPACES)]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        make_tables(Path(folder), WORKSPACES * EACH)
        shape = (folder, str(WORKSPACES * EACH), str(WORKSPACES), str(WORKSPACES))
        ports = [int(port) for port in line_of(stack.enter_context(child("benchmarks.lake", *shape))).split()]
        records = _records()
        answering = stack.enter_context(serve(Plain(records), delay_seconds=0))
        held = stack.enter_context(serve(Plain(records), delay_seconds=0, hanging=urlsplit(MAY_HANG).netloc))
        silent, accepted = stack.enter_context(_never_answering())
        without = _Watchers(stack.enter_context(_watching(folder, ports, answering)))
        beside = _Watchers(stack.enter_context(_watching(folder, [silent, *ports[1:]], held)))
        for one in (without, beside):
            if not one.ready.wait(180):
                raise RuntimeError("the watchers of what answers did not all poll within 180 s")
        committed = _commits(Path(folder), healthy)
        sleep_until(time.monotonic() + POLL_SECONDS * 2)
        if not accepted or not held.log.counts["HUNG"]:
            raise RuntimeError("the workspace and the store that hang were not both asked")
        print(
            f"hung: {len(accepted)} connections to the workspace, {held.log.counts['HUNG']} requests to the store hang"
        )
    late = _p99(without, committed), _p99(beside, committed)
    print(f"hung: p99 of {len(healthy)} delays {number(late[0])} s where all answers, {number(late[1])} s beside them")
    return [
        Figure("of the delay without them, p99", late[1] / late[0], most=1.1),
        Figure("commits never told", sum(one not in beside.events for one in healthy), most=0),
    ]


def _records() -> dict[str, bytes]:
    """A ledger for each subscription, which has seen the first commit of its table."""
    from databricks_bridge.core.positions import TablePosition
    from databricks_bridge.core.record import Record
    from databricks_bridge.ledgers.object_store import name_of

    made = {}
    for flow in range(WORKSPACES * EACH):
        spec = spec_of(flow, WORKSPACES)
        record = Record(spec.name, "c", {source.alias: TablePosition(0) for source in spec.sources}, revision=1)
        prefix = urlsplit(MAY_HANG if flow < WORKSPACES else ANSWERS).path.strip("/")
        made[f"{prefix}/{spec.name}/{name_of(1)}"] = json.dumps({"nonce": "n", "record": record.to_json()}).encode()
    return made


@contextmanager
def _never_answering() -> Iterator[tuple[int, list[socket.socket]]]:
    """A port of this machine that accepts connections, and those that it has accepted."""
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:

        def accept() -> None:
            try:
                while True:
                    accepted.append(server.accept()[0])
            except OSError:
                return  # the block was left

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], accepted
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    for one in accepted:
        one.close()


def _watching(folder: str, ports: list[int], ledgers: Bucket[Plain]) -> AbstractContextManager[Popen[str]]:
    """A triggerer with all watchers, on these workspaces."""
    env = {
        f"AIRFLOW_CONN_WS{at}": json.dumps(
            {"conn_type": "databricks", "host": "http://127.0.0.1", "port": port, "password": "t0ken"}
        )
        for at, port in enumerate(ports)
    }
    env |= ledgers.storage_options() | {"AIRFLOW_HOME": folder, "NO_PROXY": "127.0.0.1"}
    return child("benchmarks.hung_process", str(WORKSPACES), str(EACH), str(POLL_SECONDS), env=env)


class _Watchers:
    """A triggerer that is read in a thread: whether it is ready, and when each watcher sent its first event."""

    def __init__(self, process: Popen[str]) -> None:
        self.ready, self.events = threading.Event(), dict[int, float]()
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: Popen[str]) -> None:
        try:
            while said := json.loads(line_of(process)):
                if "ready" in said:
                    self.ready.set()
                elif said["updated"]:  # an event about trouble has none
                    self.events.setdefault(said["event"], said["at"])
        except RuntimeError:
            return  # it was ended with the block


def _commits(root: Path, tables: list[int]) -> dict[int, float]:
    """One commit to each of these tables, spread over some polls in random order; when each was made."""
    committed: dict[int, float] = {}
    began = time.monotonic()
    for at, table in enumerate(random.Random(7).sample(tables, len(tables))):
        sleep_until(began + POLL_SECONDS * POLLS * at / len(tables))
        commit(root, table, 1)
        committed[table] = time.time()
    return committed


def _p99(watchers: _Watchers, committed: dict[int, float]) -> float:
    delays = sorted(watchers.events[one] - at for one, at in committed.items() if one in watchers.events)
    if not delays:
        raise RuntimeError("no watcher sent an event")
    return delays[int(len(delays) * 0.99) - 1]
