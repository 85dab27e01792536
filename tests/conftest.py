"""Shared by all tests: no test reads or writes the user's own Airflow home, and three processes share the work."""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# Before anything imports Airflow, which reads its home once. A worker of xdist inherits the one of its parent.
if "AIRFLOW_HOME" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="databricks-bridge-airflow-")

HEAVY = ("spark", "airflow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The heavy kinds come first, beside one another."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return next((at for at, kind in enumerate(HEAVY) if item.get_closest_marker(kind)), len(HEAVY))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that need one another stay in one process: all of a heavy kind, and those of a file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByKind(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _kind_of(config.rootpath / nodeid.partition("::")[0])

    return ByKind(config, log)


@cache
def _kind_of(file: Path) -> str:
    # The process that hands the tests out has not collected them, so it knows no markers but in the text.
    text = file.read_text()
    return next((kind for kind in HEAVY if f"pytest.mark.{kind}" in text), str(file))


@pytest.fixture
def gone_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is not shown is gone at the second look, without the minutes between the two."""
    monkeypatch.setattr("databricks_bridge.core.protocol.gone.GONE_AFTER", timedelta(0))
