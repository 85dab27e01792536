"""`python -m benchmarks [NAME]`: runs all benchmarks, or one; exit code 1 when a goal is missed."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.figures import line

# Each module has `measure()`, which prints what is worth knowing and returns its figures.
BENCHMARKS = {
    "latest-version": "latest_version",
    "poll-cost": "poll_cost",
    "backlog": "backlog",
    "import": "import_cost",
    "watch-10k": "watch_10k",
    "waits-1k": "waits_1k",
    "wake-lag": "wake_lag",
    "hung": "hung",
    "storm": "storm",
    "trigger-lag": "trigger_lag",
    "api": "api",
    "idle": "idle",
    "warm-run": "warm_run",
    "submit-lag": "submit_lag",
}


def main(arguments: list[str]) -> int:
    """Runs the named benchmarks, or all. 2 for a name that does not exist."""
    unknown = [name for name in arguments if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    missed = []
    for name in arguments or BENCHMARKS:
        figures = import_module(f"benchmarks.{BENCHMARKS[name]}").measure()
        if not all(figure.met for figure in figures):
            missed.append(name)
        print(line(name, figures), flush=True)
    if missed:
        print(f"bench: goals missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
