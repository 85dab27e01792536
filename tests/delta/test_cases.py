"""Faults that users of neighbouring projects reported, by SQL over the Statement Execution API."""

from __future__ import annotations

from databricks_bridge.workspace.client import Workspace

from .service import Service
from .test_sql import POLL, START, history, service, table, workspace

__all__ = ["service", "workspace"]


async def test_E10_by_sql_a_look_that_finds_nothing_is_one_statement(service: Service, workspace: Workspace) -> None:
    """There is no pause that would let the warehouse stop: who chooses `via="sql"` is told that
    every look wakes it, and everything else asks no warehouse at all."""
    service.answers[POLL] = history((7, "WRITE"))
    source = table(service, workspace)
    for _ in range(12):
        found = await source.latest(7)
        assert found is not None
        assert (found.version, found.data_version) == (7, None)
    assert service.asked.count(START) == 12
