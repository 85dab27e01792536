"""Shared by all tests: no test reads or writes the user's own Airflow home, and two processes share the work."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import pytest

# Before anything imports Airflow, which reads its home once. A worker of xdist inherits the one of its parent.
if "AIRFLOW_HOME" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="databricks-bridge-airflow-")

HEAVY = ("spark", "airflow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The heavy kinds come first, each in one process after another, and beside one another; a file stays together."""
    items.sort(key=lambda item: _kind(item, HEAVY))
    for item in items:
        kind = _kind(item, HEAVY)
        group = HEAVY[kind] if kind < len(HEAVY) else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))


def _kind(item: pytest.Item, kinds: Sequence[str]) -> int:
    return next((at for at, kind in enumerate(kinds) if item.get_closest_marker(kind)), len(kinds))
