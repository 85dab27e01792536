"""A reader that lags behind its provider, asked for its version: a hold, never a gap."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core.policy import Hold
from databricks_bridge.core.positions import Position, TablePosition
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.waiting import decide_wait
from databricks_bridge.feeds.look import Looker
from databricks_bridge.local.triggers.commits import commit_versions
from databricks_bridge.workspace.client import Workspace
from tests.delta.service import Service, serve
from tests.delta.test_sql import START, WAREHOUSES, history
from tests.feeds.conftest import Lab
from tests.feeds.test_shares import FAR, READER, drive, share, spec_of

PUBLISH = "/local/shares/far_share/publish"
BEHIND = "nothing new in flights (the reader far_share.silver.flights is at version {}, the provider at {})"


@dataclass
class Sharing:
    """A Delta Sharing server that tells the version which the reader's folder is really at."""

    table: Path
    profile: Path
    asked: list[str] = field(default_factory=list)

    async def version(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        return web.Response(headers={"Delta-Table-Version": str(commit_versions(self.table)[-1])})


@pytest.fixture
async def sharing(lab: Lab, tmp_path: Path) -> AsyncIterator[Sharing]:
    made = Sharing(lab.deployment.layout.table_path("analytics", "far_share.silver.flights"), tmp_path / "ops.share")
    app = web.Application()
    app.router.add_get("/shares/{share}/schemas/{schema}/tables/{table}/version", made.version)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    made.profile.write_text(
        json.dumps({"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": "t"}), encoding="utf-8"
    )
    await share(lab, lag="held")
    await lab.analytics.post(PUBLISH, {}, safe=True)
    yield made
    await runner.cleanup()


def bounds(lab: Lab) -> list[tuple[str, str]]:
    return [(run["flights_start"], run["flights_end"]) for run in lab.notebooks.runs]


async def publish(lab: Lab, commits: int) -> None:
    await lab.analytics.post(PUBLISH, {"max_commits": commits}, safe=True)


async def test_a_lagging_reader_holds_and_no_version_is_left_out(lab: Lab, sharing: Sharing) -> None:
    source = replace(FAR, reader_profile=str(sharing.profile))
    await drive(lab, source)
    assert bounds(lab) == [("0", "0")]
    for version in range(1, 7):
        lab.commit(version)
    held = await drive(lab, source)
    assert (held.run_id, held.reason) == (None, BEHIND.format(0, 6))
    await publish(lab, 4)
    await drive(lab, source)
    held = await drive(lab, source)
    assert (held.run_id, held.reason) == (None, BEHIND.format(4, 6))
    await publish(lab, 2)
    await drive(lab, source)
    assert bounds(lab) == [("0", "0"), ("1", "4"), ("5", "6")]


async def test_the_reader_is_asked_only_when_its_provider_has_more(lab: Lab, sharing: Sharing) -> None:
    source = replace(FAR, reader_profile=f"{sharing.profile}#ops.s.f")
    await drive(lab, source)
    asked = len(sharing.asked)
    assert set(sharing.asked) == {"/shares/ops/schemas/s/tables/f/version"}
    assert (await drive(lab, source)).run_id is None
    assert len(sharing.asked) == asked


async def test_a_sensor_holds_too(lab: Lab, sharing: Sharing) -> None:
    spec = spec_of(replace(FAR, reader_profile=str(sharing.profile)))
    lab.commit(1)
    marks: dict[str, Position] = {"flights": TablePosition(0)}
    findings = await lab.looker.look(spec, marks)
    decision = decide_wait(spec, marks, None, findings, datetime.now(UTC))
    assert isinstance(decision, Hold)
    assert decision.reason == BEHIND.format(0, 1)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serve() as served:
        served.answers[READER] = {"table_type": "MANAGED", "data_source_format": "DELTASHARING"}
        served.answers[WAREHOUSES] = {"warehouses": [{"id": "w1", "name": "small"}]}
        yield served


async def test_a_reader_is_asked_by_sql(lab: Lab, service: Service) -> None:
    """The statements are scripted, and so is the lag: a warehouse cannot run here."""

    real = lab.looker.open_workspace

    async def open_workspace(name: str) -> Workspace:
        return service.workspace() if name == "reader" else await real(name)

    source = DeltaTable(FAR.table, "ops", read_as=FAR.read_as, reader_conn_id="reader", reader_warehouse="small")
    for version in range(1, 4):
        lab.commit(version)
    await share(lab)
    service.answers[START] = [history((1, "WRITE")), history((1, "WRITE")), history((3, "WRITE"))]
    async with Looker(open_workspace) as lab.looker:
        await drive(lab, source)
        held = await drive(lab, source)
        assert (held.run_id, held.reason) == (None, BEHIND.format(1, 3))
        await drive(lab, source)
    assert bounds(lab) == [("0", "1"), ("2", "3")]
    statements: list[Any] = [body["statement"] for body in service.bodies]
    assert set(statements) == {"DESCRIBE HISTORY `far_share`.`silver`.`flights` LIMIT 1"}
