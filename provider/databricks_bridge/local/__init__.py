"""A local stand-in for Databricks workspaces, for development and tests. It needs the extra `[local]`."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a deployment in the foreground, as `python -m databricks_bridge.local` does; the exit code."""
    from databricks_bridge.local.command import main as run

    return run(argv)
