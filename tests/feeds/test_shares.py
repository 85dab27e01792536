"""Across metastores, before a first run: both ends of a share asked over real HTTP, no run where it cannot be read."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core import acts
from databricks_bridge.core.errors import BridgeError, InvalidArgument, NotAuthenticated, NotFound, NotPermitted
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.feeds.shares import check_readers
from databricks_bridge.workspace.client import Workspace
from tests.delta.service import Service, serve
from tests.feeds.conftest import TABLE, Lab

FAR = DeltaTable(TABLE, "ops", read_as="far_share.silver.flights")

READER = "GET /api/2.1/unity-catalog/tables/far_share.silver.flights"
PROVIDER = "GET /api/2.1/unity-catalog/tables/main.silver.flights"
CATALOG = "GET /api/2.1/unity-catalog/catalogs/far_share"
SHARES = "GET /api/2.1/unity-catalog/shares"
GOOD = {
    "name": "main.silver.flights",
    "shared_as": "silver.flights",
    "data_object_type": "TABLE",
    "history_data_sharing_status": "ENABLED",
    "cdf_enabled": False,
}


async def share(lab: Lab, **more: Any) -> None:
    body = {"catalog": "far_share", "source_metastore": "ops", "source_catalog": "main", "schemas": ["silver"], **more}
    await lab.analytics.post("/local/shares", body, safe=True)


def spec_of(source: DeltaTable) -> SubscriptionSpec:
    return SubscriptionSpec("delays", (source,), "earliest", Policy())


async def drive(lab: Lab, source: DeltaTable = FAR) -> acts.Finish:
    plan = replace(await lab.plan(), spec=spec_of(source))
    done = await (await lab.driver(plan=plan)).drive()
    assert isinstance(done, acts.Finish)
    return done


def said_by(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the checks said; whatever else is logged in this process is not theirs."""
    return [one.getMessage() for one in caplog.records if one.name == "databricks_bridge.feeds.shares"]


async def refused(lab: Lab, kind: type[BridgeError], source: DeltaTable = FAR) -> str:
    """The error of a first start; nothing was started, or written, for it."""
    with pytest.raises(kind) as error:
        await drive(lab, source)
    assert await lab.runs() == []
    assert await lab.ledger.read() is None
    return str(error.value)


async def test_a_shared_table_with_history_is_processed(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    await share(lab)
    with caplog.at_level(logging.INFO, "databricks_bridge.feeds.shares"):
        assert (await drive(lab)).run_id is not None
    assert said_by(caplog) == []
    assert [run["flights_table"] for run in lab.notebooks.runs] == ["far_share.silver.flights"]


async def test_a_reader_that_is_not_there_says_what_to_do(lab: Lab) -> None:
    said = await refused(lab, NotFound)
    assert said.startswith(
        f"far_share.silver.flights, the read_as of {TABLE}, is not in {lab.analytics.host}, or this identity may not see it: "
        "create its catalog from the provider's share there, grant this identity SELECT on the table, or correct read_as"
    )
    await share(lab)
    assert (await drive(lab)).run_id is not None, "what was refused is asked again"


async def test_a_share_without_history_is_refused(lab: Lab) -> None:
    await share(lab, history=False)
    assert await refused(lab, InvalidArgument) == (
        f"far_share.silver.flights cannot follow its table in {lab.deployment.host('ops')}: the share far_share holds {TABLE} "
        "without history (history_data_sharing_status DISABLED), so no range of its versions can be read: ALTER SHARE "
        f"far_share ALTER TABLE {TABLE} WITH HISTORY (ADD TABLE ... WITH HISTORY where it is not in yet)"
    )


async def test_a_view_is_no_reader(lab: Lab) -> None:
    view = lab.deployment.layout.table_path("analytics", TABLE).with_name("flights.view.json")
    view.parent.mkdir(parents=True)
    view.write_text(json.dumps({"query": "SELECT 1", "schema": '{"type":"struct","fields":[]}'}))
    said = await refused(lab, InvalidArgument, replace(FAR, read_as=TABLE))
    assert f"{TABLE} in {lab.analytics.host}, the read_as of {TABLE}, is of type VIEW" in said


async def test_the_name_of_another_shared_table_is_refused(lab: Lab) -> None:
    source = lab.deployment.layout.table_path("ops", TABLE)
    log = source.with_name("weather") / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_bytes((source / "_delta_log" / f"{0:020d}.json").read_bytes())
    await share(lab)
    said = await refused(lab, InvalidArgument, replace(FAR, read_as="far_share.silver.weather"))
    assert said.endswith(
        f"the share far_share holds {TABLE} as silver.flights; correct read_as (far_share.silver.weather)"
    )


async def test_a_table_of_the_consumers_own_needs_no_share(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    source = lab.deployment.layout.table_path("ops", TABLE) / "_delta_log"
    own = lab.deployment.layout.table_path("analytics", "copy.silver.flights") / "_delta_log"
    own.mkdir(parents=True)
    (own / f"{0:020d}.json").write_bytes((source / f"{0:020d}.json").read_bytes())
    with caplog.at_level(logging.INFO, "databricks_bridge.feeds.shares"):
        assert (await drive(lab, replace(FAR, read_as="copy.silver.flights"))).run_id is not None
    assert said_by(caplog) == [
        f"copy.silver.flights in {lab.analytics.host} is not read through a share; there is none to check"
    ]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """Both ends in one: the provider shows a share `ops` that is fine, the reader a catalog that was made from it."""
    async with serve() as served:
        served.answers[READER] = {"table_type": "MANAGED", "data_source_format": "DELTASHARING"}
        served.answers[CATALOG] = {"catalog_type": "DELTASHARING_CATALOG", "share_name": "ops"}
        served.answers[PROVIDER] = {"table_type": "MANAGED", "properties": {"delta.enableChangeDataFeed": "true"}}
        served.answers[f"{SHARES}/ops"] = {"name": "ops", "objects": [GOOD]}
        yield served


async def check(service: Service, source: DeltaTable = FAR, **marks: TablePosition) -> None:
    async with service.workspace() as client:

        async def workspace(databricks_conn_id: str) -> Workspace:
            assert databricks_conn_id == "ops"
            return client

        for _ in range(2):
            await check_readers(workspace, client, [source], marks)


def no(status: int, code: str) -> Any:
    return lambda: web.json_response({"error_code": code, "message": "no"}, status=status)


async def test_what_was_fine_is_asked_once(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "databricks_bridge.feeds.shares"):
        await check(service)
    assert service.asked == [
        f"{READER}?include_manifest_capabilities=true",
        CATALOG,
        PROVIDER,
        f"{SHARES}/ops?include_shared_data=true",
    ]
    (warning,) = (one for one in caplog.records if one.name == "databricks_bridge.feeds.shares")
    assert warning.levelno == logging.WARNING
    assert "without its change data feed (cdf_enabled false), which the table has" in warning.getMessage()


async def test_nothing_is_asked_once_there_is_a_watermark_or_of_a_table_with_one_name(service: Service) -> None:
    await check(service, flights=TablePosition(3))
    await check(service, DeltaTable(TABLE, "ops"))
    assert service.asked == []


@pytest.mark.parametrize(
    ("place", "answer"),
    [
        (f"{SHARES}/ops", no(403, "PERMISSION_DENIED")),
        (f"{SHARES}/ops", no(404, "SHARE_DOES_NOT_EXIST")),
        (PROVIDER, no(403, "PERMISSION_DENIED")),
    ],
)
async def test_who_may_not_see_the_share_is_told_so_in_the_log(
    service: Service, caplog: pytest.LogCaptureFixture, place: str, answer: Any
) -> None:
    service.answers[place] = answer
    with caplog.at_level(logging.INFO, "databricks_bridge.feeds.shares"):
        await check(service)
    (line,) = said_by(caplog)
    assert line.startswith(f"the share of {TABLE} in {service.url} was not checked for history and filters: ")


async def test_a_token_that_is_refused_is_an_error(service: Service) -> None:
    service.answers[f"{SHARES}/ops"] = no(401, "UNAUTHENTICATED")
    with pytest.raises(NotAuthenticated):
        await check(service)


async def test_a_reader_that_may_not_be_seen_is_an_error(service: Service) -> None:
    service.answers[READER] = no(403, "PERMISSION_DENIED")
    with pytest.raises(
        NotPermitted, match=r"this identity may not see far_share.silver.flights, the read_as of"
    ) as said:
        await check(service)
    assert service.url in str(said.value)


async def test_where_the_catalog_tells_no_share_all_that_can_be_seen_are_read(service: Service) -> None:
    service.answers[CATALOG] = no(403, "PERMISSION_DENIED")
    service.answers[SHARES] = [
        {"shares": [{"name": "plain"}], "next_page_token": "2"},
        {"shares": [{"name": "ops"}]},
    ]
    service.answers[f"{SHARES}/plain"] = {
        "name": "plain",
        "objects": [GOOD | {"history_data_sharing_status": "DISABLED"}],
    }
    await check(service)
    assert service.asked[3:] == [
        f"{SHARES}?max_results=0",
        f"{SHARES}?max_results=0&page_token=2",
        f"{SHARES}/plain?include_shared_data=true",
        f"{SHARES}/ops?include_shared_data=true",
    ]
    service.answers[SHARES] = {"shares": [{"name": "plain"}]}
    with pytest.raises(InvalidArgument, match=r"the share plain holds .* without history"):
        await check(service)
