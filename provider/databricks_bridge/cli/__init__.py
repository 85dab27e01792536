"""The console command `databricks-bridge`. Each group is imported when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence

ASKED = ("links", "switch", "test-trigger", "model-event")
LOCAL = ("up", "down", "status", "logs", "wave", *ASKED)
"""Words of the group `local` that have a command line of their own, which is parsed where they are done."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code.

    0 done, 1 refused or failed, 2 a command line that cannot work, 3 (`status`, `claim list`) a claim waits for a person,
    4 not confirmed, nothing was written.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["local"] and words[1:2] and words[1] in LOCAL:
        return _local(words[1:])
    from databricks_bridge.cli.parser import parser
    from databricks_bridge.cli.running import run

    try:
        options = parser().parse_args(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return run(options)


def _local(words: Sequence[str]) -> int:
    try:
        if words[0] == "up":
            from databricks_bridge.local.command import main as up

            return up(words[1:])
        if words[0] in ASKED:
            from databricks_bridge.local.asking import main as ask

            return ask(words)
        from databricks_bridge.local.managing import main as manage

        return manage(words)
    except ModuleNotFoundError as error:
        print(
            f"databricks-bridge: {error.name} is missing; install airflow-provider-databricks-bridge[local]",
            file=sys.stderr,
        )
        return 2
