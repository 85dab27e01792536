"""A run that is over has written its tables: so the tables are looked at after the runs, however the author listed them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.core.sources import TriggeredRuns
from databricks_bridge.core.subscription import as_sources
from databricks_bridge.feeds.look import Looker
from tests.core.builders import FLIGHTS, WEATHER, spec_of


@pytest.mark.parametrize("table_first", [True, False])
async def test_runs_are_looked_at_before_tables(monkeypatch: pytest.MonkeyPatch, table_first: bool) -> None:
    runs = TriggeredRuns(job_name="silver", alias="silver", databricks_conn_id="ops", writes=(FLIGHTS,))
    spec = replace(spec_of(FLIGHTS), sources=as_sources([FLIGHTS, WEATHER, runs] if table_first else [runs, WEATHER]))
    seen: list[str] = []

    async def look(_: Any, source: Any, *more: Any) -> None:
        seen.append(source.alias)

    monkeypatch.setattr(Looker, "_look_at_table", look)
    monkeypatch.setattr(Looker, "_look_at_runs", look)

    async def never(name: str) -> Any:
        raise AssertionError(name)

    async with Looker(never) as looker:
        findings = await looker.look(spec, {})
    assert seen[0] == "silver"
    assert set(findings) == {"silver", "flights", "weather"}
