"""`python -m faults.explore`: two consumers, every interleaving, at the full bounds. Minutes, where the tests take seconds.

Three versions with each pair of two crashes, two failures and one skip, over a ledger with compare-and-set and without; the postcondition,
commits without data, a start at "latest", a workspace that does not show a run for minutes, runs that are deleted and
tokens that are forgotten, tries lost after their commit, a person who repairs while a sensor waits beside them. The largest have some millions of states. `ONLY=n` plays one line of the table.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.core.exploration_world import EARLIEST, LATEST, Keep, plan_on
from tests.core.exploring import Exploration, explore
from tests.core.exploring_around import explore_around

THREE_VERSIONS = {"last": (2,)}
COMPARE_AND_SET_ONLY: tuple[dict[str, Any], ...] = (
    {"last": (1,), "tries": True, "crashes": 2},
    {"last": (1,), "tries": True, "crashes": 1, "failures": 1},
)
"""Without compare-and-set the commit of one may be written over by that of another, which no try can find again."""
AROUND: tuple[dict[str, int], ...] = (
    {"dag_runs": 3, "last": 2, "crashes": 2, "losses": 2, "restarts": 1},
    {"dag_runs": 3, "last": 1, "at_once": 2, "crashes": 1, "given_up": 1},
)
"""Around external work; the second line at once, which only a ledger with compare-and-set allows."""
LARGE: tuple[dict[str, Any], ...] = (
    {**THREE_VERSIONS, "crashes": 2, "failures": 2},
    {**THREE_VERSIONS, "crashes": 2, "skips": 1},
    {**THREE_VERSIONS, "failures": 2, "skips": 1},
)
SMALL: tuple[dict[str, Any], ...] = (
    {**THREE_VERSIONS, "without_data": frozenset({1}), "crashes": 1},
    {"last": (0,), "hollows": 1, "crashes": 1, "failures": 1},
    {"last": (0, 1), "first": (0, 0), "sources": "latest", "crashes": 1},
    {"last": (1,), "hides": 2, "crashes": 1},
    {"last": (0,), "hides": 2, "hollows": 1, "crashes": 1},
    {"last": (0,), "deletes": 1, "failures": 1, "crashes": 1},
    {"last": (0,), "days": 1, "hides": 1, "crashes": 2},
    {"last": (0,), "failures": 4, "repairs": 1, "sensor": True, "crashes": 1},
)


def main(environment: Mapping[str, str]) -> int:
    cases = [(bounds, keep) for bounds in SMALL for keep in Keep]
    cases += [(bounds, keep) for bounds in LARGE for keep in (Keep.COMPARE_AND_SET, Keep.UPSERT)]
    cases += [(bounds, Keep.COMPARE_AND_SET) for bounds in (*COMPARE_AND_SET_ONLY, *AROUND)]
    if environment.get("ONLY"):
        cases = [cases[int(environment["ONLY"])]]
    table = Table("", "bounds", "ledger", "states", "seconds", "found")
    bad = 0
    console = Console()
    with ProcessPoolExecutor(max_workers=2) as pool:
        for at, ((bounds, keep), (found, seconds)) in enumerate(zip(cases, pool.map(_one, cases), strict=True)):
            said = found.violation or (f"{found.stuck} stuck" if found.stuck else "")
            bad += bool(said)
            table.add_row(str(at), _words(bounds), str(keep), f"{found.states:,}", f"{seconds:.0f}", said or "nothing")
            console.print(f"{at}: {_words(bounds)}, {keep}: {found.states:,} states, {said or 'nothing found'}")
            for line in found.path or found.stuck_path:
                console.print(f"    {line}")
    console.print(table)
    print(f"explorations {len(cases)}, violations or dead ends {bad}", flush=True)
    return 1 if bad else 0


def _one(case: tuple[dict[str, Any], Keep]) -> tuple[Exploration, float]:
    bounds, keep = case
    began = time.monotonic()
    options = {name: value for name, value in bounds.items() if name != "sources"}
    if "dag_runs" in bounds:
        around = explore_around(**bounds)
        found = Exploration(around.states, around.violation or None, around.path, bool(around.stuck), around.stuck)
        return found, time.monotonic() - began
    sources = (EARLIEST, LATEST) if bounds.get("sources") == "latest" else ()
    plan = plan_on(*sources, postcondition="hollows" in bounds)
    return explore(plan=plan, consumers=2, keep=keep, **options), time.monotonic() - began


def _words(bounds: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {sorted(value) if isinstance(value, frozenset) else value}" for name, value in bounds.items()
    )


if __name__ == "__main__":
    sys.exit(main(os.environ))
