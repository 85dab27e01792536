"""The console command `databricks-bridge`. For now it has one group: `local up`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_USAGE = """usage: databricks-bridge local up --home DIR --workspace NAME [...]

Runs local workspaces for development and tests (a stand-in, not Databricks) in the foreground.
`databricks-bridge local up --help` lists the options."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code. 2 for a command line that cannot work."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:2] == ["local", "up"]:
        return _local_up(words[2:])
    if words in (["--help"], ["-h"]):
        print(_USAGE)
        return 0
    print(_USAGE, file=sys.stderr)
    return 2


def _local_up(argv: Sequence[str]) -> int:
    try:
        from databricks_bridge.local.command import main as up
    except ModuleNotFoundError as error:
        print(
            f"databricks-bridge: {error.name} is missing; install airflow-provider-databricks-bridge[local]",
            file=sys.stderr,
        )
        return 2
    return up(argv)
