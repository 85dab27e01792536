"""Tables of an open share: the server's version call over HTTP, and the profile that opens it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core.errors import (
    BadAnswer,
    InvalidArgument,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    Throttled,
)
from databricks_bridge.delta.model import VersionSource
from databricks_bridge.delta.sharing import SharedTable, read_profile

from .conftest import Clock
from .service import Service, serve

METADATA = "GET /delta/shares/ops%20share/schemas/silver/tables/flights/metadata"
VERSION = "GET /delta/shares/ops%20share/schemas/silver/tables/flights/version"
NAME = "ops share.silver.flights"


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serve() as served:
        yield served


def profile(service: Service, **fields: Any) -> dict[str, Any]:
    return {
        "shareCredentialsVersion": 1,
        "endpoint": f"{service.url}/delta/",
        "bearerToken": "SECRET",
        "expirationTime": "2026-12-01T00:00:00.0Z",
        "conn_id": "partner",
    } | fields


def shared(service: Service, clock: Clock, **fields: Any) -> SharedTable:
    return SharedTable(
        read_profile(profile(service, **fields)), NAME, now=clock, sleep=service.sleep, budget_seconds=20
    )


def answered(**headers: str) -> web.Response:
    return web.Response(headers=headers)


@pytest.mark.parametrize("name", ["Delta-Table-Version", "delta-table-version", "DELTA-TABLE-VERSION"])
async def test_B20_the_version_is_in_a_header_of_any_case(service: Service, clock: Clock, name: str) -> None:
    service.answers[VERSION] = lambda: answered(**{name: "12"})
    source = shared(service, clock)
    assert isinstance(source, VersionSource)
    for known, data in ((None, 12), (11, 12), (12, None)):
        found = await source.latest(known)
        assert found is not None
        assert (found.version, found.data_version, found.table_id) == (12, data, None)
    assert service.asked == [VERSION, METADATA, VERSION, VERSION], "the id is asked for only when the version moved"


def described(version: int | None, identity: str | None, *, delta: bool = False) -> web.Response:
    fields: dict[str, Any] = {"id": identity, "schemaString": "{}"} if identity else {"schemaString": "{}"}
    lines = [{"protocol": {"minReaderVersion": 1}}, {"metaData": {"deltaMetadata": fields} if delta else fields}]
    headers = {} if version is None else {"Delta-Table-Version": str(version)}
    body = "\n".join(json.dumps(line) for line in lines)
    return web.Response(text=body, headers=headers, content_type="application/x-ndjson")


@pytest.mark.parametrize("delta", [False, True])
async def test_another_table_under_the_shared_name_has_another_metadata_id(
    service: Service, clock: Clock, delta: bool
) -> None:
    source = shared(service, clock)
    for version, identity in ((50, "a"), (60, "b")):
        service.answers[VERSION] = partial(answered, **{"Delta-Table-Version": str(version)})
        service.answers[METADATA] = partial(described, version, identity, delta=delta)
        found = await source.latest(50)
        assert found is not None
        assert (found.version, found.metadata_id) == (version, identity)


async def test_version_and_id_are_of_one_answer(service: Service, clock: Clock) -> None:
    """The table was replaced between the two requests: the id must not be told with the version before."""
    service.answers[VERSION] = partial(answered, **{"Delta-Table-Version": "50"})
    service.answers[METADATA] = partial(described, 51, "b")
    found = await shared(service, clock).latest(50)
    assert found is not None
    assert (found.version, found.metadata_id, found.data_version) == (51, "b", 51)


@pytest.mark.parametrize(
    "metadata", [None, partial(described, 7, None), partial(web.Response, text="[]\n{"), partial(web.Response, text="")]
)
async def test_a_server_that_tells_no_id_still_tells_versions(service: Service, clock: Clock, metadata: Any) -> None:
    service.answers[VERSION] = partial(answered, **{"Delta-Table-Version": "7"})
    service.answers[METADATA] = metadata
    found = await shared(service, clock).latest(6)
    assert found is not None
    assert (found.version, found.metadata_id, found.data_version) == (7, None, 7)


async def test_no_id_is_asked_for_where_nobody_wants_one(service: Service, clock: Clock) -> None:
    service.answers[VERSION] = partial(answered, **{"Delta-Table-Version": "7"})
    source = SharedTable(read_profile(profile(service)), NAME, identify=False, now=clock)
    assert await source.latest(6) is not None
    assert service.asked == [VERSION]


async def test_B20_a_commit_between_two_looks_is_in_the_next_range(service: Service, clock: Clock) -> None:
    """A look asks once; what the range ends with is what that answer said, whatever the server says a moment later."""
    service.answers[VERSION] = [partial(answered, **{"Delta-Table-Version": str(v)}) for v in (12, 13)]
    source = shared(service, clock)
    first = await source.latest(11)
    assert first is not None
    assert (first.version, first.data_version) == (12, 12)
    assert [c.version async for c in source.commits(11, 12)] == [12]
    second = await source.latest(12)
    assert second is not None
    assert second.version == 13


async def test_B20_an_expired_profile_is_named_and_not_sent(service: Service, clock: Clock, tmp_path: Path) -> None:
    clock.at = datetime(2026, 12, 1, tzinfo=UTC)
    with pytest.raises(NotAuthenticated, match=r"of the connection partner expired at 2026-12-01T00:00:00\+00:00"):
        await shared(service, clock).latest()
    file = tmp_path / "partner.share"
    file.write_text(json.dumps(profile(service)))
    with pytest.raises(NotAuthenticated, match=r"partner\.share expired"):
        await SharedTable(read_profile(file), NAME, now=clock).latest()
    assert service.asked == []


@pytest.mark.parametrize(
    ("status", "body", "kind", "why"),
    [
        (401, {"errorCode": "UNAUTHENTICATED", "message": "bad SECRET"}, NotAuthenticated, "connection partner"),
        (403, {"errorCode": "PERMISSION_DENIED", "message": "no"}, NotPermitted, "connection partner"),
        (404, {"errorCode": "RESOURCE_DOES_NOT_EXIST", "message": "no such table"}, NotFound, "no such table"),
        (404, None, BadAnswer, "404"),
    ],
)
async def test_B20_refusals_name_the_profile_and_never_the_token(
    service: Service, clock: Clock, status: int, body: Any, kind: type[Exception], why: str
) -> None:
    service.answers[VERSION] = lambda: web.json_response(body, status=status)
    with pytest.raises(kind, match=why) as caught:
        await shared(service, clock).latest()
    assert "SECRET" not in str(caught.value)
    assert "SECRET" not in repr(shared(service, clock))


async def test_B20_a_throttled_call_waits_as_long_as_it_is_asked_to(service: Service, clock: Clock) -> None:
    def slow(pause: str) -> web.Response:
        return web.json_response({"errorCode": "X", "message": "slow"}, status=429, headers={"Retry-After": pause})

    service.answers[VERSION] = [partial(slow, "7"), lambda: answered(**{"Delta-Table-Version": "1"})]
    found = await shared(service, clock).latest()
    assert found is not None
    assert service.pauses[0] >= 7
    service.answers[VERSION] = partial(slow, "600")
    with pytest.raises(Throttled) as caught:
        await shared(service, clock).latest()
    assert caught.value.retry_after == 600


async def test_an_answer_without_the_header_is_a_bad_answer(service: Service, clock: Clock) -> None:
    service.answers[VERSION] = lambda: answered()
    with pytest.raises(BadAnswer, match="Delta-Table-Version"):
        await shared(service, clock).latest()


def test_a_profile_may_be_the_fields_of_a_connection() -> None:
    found = read_profile(
        {"conn_id": "c", "host": "https://h/x", "password": "t", "extra": '{"expirationTime": "2030-01-01T00:00:00"}'}
    )
    assert (found.endpoint, found.token, found.expires_at) == ("https://h/x", "t", datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"endpoint": "https://h"}', "bearerToken"),
        ('{"shareCredentialsVersion": 3}', "version 3"),
        ('{"shareCredentialsVersion": 2, "type": "oauth_client_credentials"}', "oauth_client_credentials"),
        ('{"endpoint": "https://h", "bearerToken": "SECRET", "expirationTime": "soon"}', "soon"),
    ],
)
def test_a_profile_that_cannot_be_used_is_named(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "partner.share"
    file.write_text(content)
    with pytest.raises(InvalidArgument, match=f"partner.share.*{why}") as caught:
        read_profile(str(file))
    assert "SECRET" not in str(caught.value)


def test_a_profile_that_is_not_there() -> None:
    with pytest.raises(InvalidArgument, match="No such file"):
        read_profile("nowhere.share")
