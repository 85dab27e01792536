"""`python -m faults.busy.kills`: `kill -9` at random moments of a busy time, and a restart each time.

Files and commits come at random while the workspace is up, down or starting; schedules are due by the clock. At the end
each of them must have one run, each run one end, and no end may claim more than its notebook did. `KILLS=n` (40) and `SEED=n`.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from databricks_bridge.local.layout import Layout
from databricks_bridge.local.runs.model import Outcome, Phase, Run
from databricks_bridge.local.runs.records import all_attempts_of, runs_in
from databricks_bridge.local.store import Store
from faults.busy.checker import Account
from faults.busy.server import ENGINE_LOG
from faults.busy.world import Server, World, now_ms, running

KILLS = 40
FILES, TABLES, COMPLETIONS, SCHEDULES = 10, 8, 4, 2
PERIOD_SECONDS = 3
SCALE = 0.01
NOTEBOOK_SECONDS = 0.15
REST_SECONDS = (0.1, 2.0)
UP_SECONDS, YOUNG_SECONDS = (0.05, 3.0), (0.0, 0.4)
"""How long after it has come up the workspace is killed; and, one time in five, after it was started."""
PAUSE_SECONDS = 0.03


@dataclass
class Told:
    """What came of it. `lost` runs were at work when the process was killed, `twice` were begun more than once."""

    kills: int
    account: Account
    runs: int
    ends_wrong: list[str]
    lost: int

    @property
    def line(self) -> str:
        found = self.account
        return (
            f"kills {self.kills}, times due {found.due}, missed {found.missed}, fired twice {found.doubled}, runs "
            f"{self.runs}, ended wrongly {len(self.ends_wrong)}, lost at work and said so {self.lost}"
        )

    @property
    def clean(self) -> bool:
        return self.account.clean and not self.ends_wrong


def main(given: Mapping[str, str]) -> int:
    kills, seed = int(given.get("KILLS") or KILLS), int(given.get("SEED") or 1)
    print(f"kills: {kills}, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="databricks-bridge-kills-") as home:
        told = play(Path(home), kills, random.Random(seed))
    for wrong in [*told.account.lines, *told.ends_wrong][:40]:
        print(f"kills: {wrong}")
    print(told.line, flush=True)
    return 0 if told.clean else 1


def play(home: Path, kills: int, chance: random.Random) -> Told:
    """So many kills, then calm, then the account."""
    server = Server(home, SCALE, NOTEBOOK_SECONDS)
    with running(server):
        world = World(server, chance, REST_SECONDS, uploads=False)
        world.furnish(FILES, TABLES, COMPLETIONS, SCHEDULES, PERIOD_SECONDS)
        # Each trigger has its baseline: what comes from now on is news.
        time.sleep(server.interval * 2)
        for _ in range(kills):
            _live(world, chance.uniform(*UP_SECONDS))
            server.kill()
            _live(world, chance.uniform(*YOUNG_SECONDS), up=False)
            server.start()
            if chance.random() < 0.2:
                _live(world, chance.uniform(*YOUNG_SECONDS), up=False)
                server.kill()
                server.start()
            server.wait()
        until = now_ms()
        world.settle(PAUSE_SECONDS)
        # What would fire a second time has, by now.
        time.sleep(server.interval * 4)
        world.look_at_all()
        account = world.account(until)
    wrong, lost = _ends(home)
    return Told(kills, account, sum(len(watch.runs) for watch in world.watches), wrong, lost)


def _live(world: World, seconds: float, *, up: bool = True) -> None:
    """Things come, and are seen while there is somebody to ask."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        world.change()
        if up:
            world.look()
        time.sleep(PAUSE_SECONDS)


def _ends(home: Path) -> tuple[list[str], int]:
    """What is wrong with the ends of runs, by the store and by what the engine wrote down; and how many were lost at work."""
    said = Counter((home / ENGINE_LOG).read_text().splitlines())
    wrong = [f"the engine {line} {count} times" for line, count in said.items() if count > 1]
    store, lost = Store(Layout(home).store_file), 0
    try:
        for run in runs_in(store, set(Phase)):
            ends = store.query("SELECT count(*) AS n FROM run_ends WHERE body LIKE ?", (f'%"run_id": {run.run_id},%',))
            if ends[0]["n"] != 1 and run.phase is Phase.DONE:
                wrong.append(f"run {run.run_id} of {run.name} has {ends[0]['n']} ends")
            wrong += _wrong_end(store, run, said)
            lost += run.outcome in (Outcome.FAILED, Outcome.BROKEN)
    finally:
        store.close()
    return wrong, lost


def _wrong_end(store: Store, run: Run, said: Mapping[str, int]) -> list[str]:
    if run.phase is not Phase.DONE:
        # A schedule may have fired again just before the last look.
        return [] if run.trigger == "PERIODIC" else [f"run {run.run_id} of {run.name} is still {run.phase}"]
    wrong = []
    for attempt in all_attempts_of(store, run.run_id):
        if attempt.phase is not Phase.DONE:
            wrong.append(f"task run {attempt.run_id} of {run.name} is {attempt.phase}, and its run has ended")
        if attempt.outcome is Outcome.SUCCESS and not said.get(f"finished {attempt.run_id}"):
            wrong.append(f"task run {attempt.run_id} of {run.name} is a success, and its notebook did not finish")
        if (attempt.outcome is Outcome.SUCCESS) != (run.outcome is Outcome.SUCCESS):
            wrong.append(f"task run {attempt.run_id} is {attempt.outcome}, and run {run.run_id} {run.outcome}")
    return wrong


if __name__ == "__main__":
    sys.exit(main(os.environ))
