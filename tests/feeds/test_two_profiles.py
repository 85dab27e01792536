"""One name, asked of two: what decides an answer is part of every key under which it is kept (T04)."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.sources import DeltaTable
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.feeds import shares
from databricks_bridge.feeds.look import Looker
from databricks_bridge.feeds.seat import FeedLooker, Seat
from databricks_bridge.feeds.tables import key_of
from databricks_bridge.workspace.client import Workspace
from tests.core.builders import spec_of

NAME = "sales.silver.flights"
VERSIONS = {"Bearer one": 5, "Bearer two": 900}


async def two_profiles(folder: Path, server: TestServer) -> SubscriptionSpec:
    """A subscription with one shared name from two profiles: one token sees version 5, the other 900."""
    sources = []
    for token in ("one", "two"):
        profile = folder / f"{token}.share"
        content = {"shareCredentialsVersion": 1, "endpoint": str(server.make_url("/")), "bearerToken": token}
        profile.write_text(json.dumps(content))
        sources.append(DeltaTable(NAME, "ops", alias=token, via="sharing", profile=str(profile)))
    return spec_of(*sources)


def sharing_server() -> TestServer:
    async def version(request: web.Request) -> web.Response:
        return web.Response(headers={"Delta-Table-Version": str(VERSIONS[request.headers["Authorization"]])})

    app = web.Application()
    app.router.add_get("/shares/sales/schemas/silver/tables/flights/version", version)
    return TestServer(app)


@pytest.mark.parametrize("from_the_feed", [False, True])
async def test_one_shared_name_of_two_profiles_is_two_tables(tmp_path: Path, from_the_feed: bool) -> None:
    async def open_workspace(name: str) -> Workspace:
        return Workspace("http://127.0.0.1:9", _nothing)

    async with sharing_server() as server:
        spec = await two_profiles(tmp_path, server)
        seat = Seat(open_workspace, 60)
        async with FeedLooker(seat) if from_the_feed else Looker(open_workspace) as looker:
            for marks in ({}, {"one": TablePosition(4), "two": TablePosition(899)}):
                found = await looker.look(spec, marks, thorough=True)
                versions = {
                    alias: finding.position and finding.position.version
                    for alias, finding in found.items()
                    if isinstance(finding, TableFinding)
                }
                assert versions == {"one": 5, "two": 900}
        await seat.close()


BASE = DeltaTable(NAME, "ops", read_as="a.b.c")
OTHER: dict[str, Any] = {
    "table": "sales.silver.weather",
    "databricks_conn_id": "met",
    "via": "sharing",
    "profile": "/srv/two.share",
    "warehouse": "nightly",
}
SAME_POLL = {"alias", "start", "read_as", "reader_profile", "reader_conn_id", "reader_warehouse"}


def other(field: str) -> DeltaTable:
    """BASE with another value in this one field, whether that can be written or not."""
    made = replace(BASE)
    object.__setattr__(made, field, OTHER.get(field, "another"))
    return made


@pytest.mark.parametrize("field", [one.name for one in fields(DeltaTable)])
def test_a_field_that_decides_the_answer_is_in_the_key(field: str) -> None:
    assert (key_of(other(field)) == key_of(BASE)) == (field in SAME_POLL)


async def test_a_reader_that_was_found_fine_speaks_for_no_other_way_of_reading(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[DeltaTable] = []

    async def check(workspace: Any, consumer: Any, source: DeltaTable) -> None:
        asked.append(source)

    monkeypatch.setattr(shares, "_check", check)
    plain = DeltaTable(NAME, "ops", read_as="a.b.c")
    shared = DeltaTable(NAME, "ops", read_as="a.b.c", via="sharing", profile=str(tmp_path))
    consumer = Workspace("http://127.0.0.1:9", _nothing)
    for source in (shared, plain, shared, plain):
        await shares.check_readers(_never, consumer, [source], {})
    assert asked == [shared, plain]


async def _nothing() -> dict[str, str]:
    return {}


async def _never(name: str) -> Workspace:
    raise AssertionError(name)
