from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core.errors import InvalidArgument, NotAuthenticated, Unavailable
from databricks_bridge.hooks.databricks import OFFICIAL_NAMES, open_workspace


@dataclass
class Service:
    """A workspace that knows which `Authorization` it accepts."""

    accepted: set[str] = field(default_factory=set)
    seen: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    async def api(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(dict(request.headers))
        if request.headers.get("Authorization") not in self.accepted:
            return web.json_response({"error_code": "UNAUTHENTICATED", "message": "no"}, status=401)
        return web.json_response({"job_id": 1})


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    state = Service()
    app = web.Application()
    app.router.add_get("/api/2.2/jobs/get", state.api)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    state.port = runner.addresses[0][1]
    yield state
    await runner.cleanup()


Connect = Callable[..., None]


@pytest.fixture
def connect(service: Service, monkeypatch: pytest.MonkeyPatch) -> Connect:
    def write(**fields: Any) -> None:
        connection = {"conn_type": "databricks", "host": "127.0.0.1", "schema": "http", "port": service.port} | fields
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))

    return write


async def test_a_token_in_the_password(service: Service, connect: Connect) -> None:
    connect(password="dapi-one")
    service.accepted = {"Bearer dapi-one"}
    async with await open_workspace("ops") as workspace:
        assert workspace.host == f"http://127.0.0.1:{service.port}"
        assert await workspace.get_job(1) == {"job_id": 1}
    assert service.seen[0]["User-Agent"].startswith("databricks-bridge/")


async def test_a_host_that_is_written_as_a_url(service: Service, connect: Connect) -> None:
    connect(host=f"http://127.0.0.1:{service.port}", schema="", port=None, password="dapi-one")
    service.accepted = {"Bearer dapi-one"}
    async with await open_workspace("ops") as workspace:
        assert workspace.host == f"http://127.0.0.1:{service.port}"
        await workspace.get_job(1)


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "adb-1.2.azuredatabricks.net"}, "https://adb-1.2.azuredatabricks.net"),
        ({"host": "https://adb-1.2.azuredatabricks.net/"}, "https://adb-1.2.azuredatabricks.net"),
        ({"host": "http://adb-1.2.azuredatabricks.net"}, "https://adb-1.2.azuredatabricks.net"),
        ({"host": "http://workspace:8080", "schema": "http"}, "http://workspace:8080"),
        ({"host": "workspace", "schema": "http", "port": 8080}, "http://workspace:8080"),
        ({"host": "https://workspace:8443"}, "https://workspace:8443"),
        ({"host": "http://localhost:8080"}, "http://localhost:8080"),
        ({"host": "", "extra": '{"host": "https://other"}'}, "https://other"),
    ],
)
async def test_the_url_of_a_connection(connect: Connect, fields: dict[str, Any], url: str) -> None:
    connect(**{"schema": "", "port": None, "password": "dapi-one"} | fields)
    async with await open_workspace("ops") as workspace:
        assert workspace.host == url


async def test_a_token_in_extra_does_not_fill_the_log(
    service: Service, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    connect(extra=json.dumps({"token": "dapi:with:colons"}))
    service.accepted = {"Bearer dapi:with:colons"}
    with caplog.at_level(logging.INFO):
        async with await open_workspace("ops") as workspace:
            await workspace.get_job(1)
    assert [record for record in caplog.records if "token auth" in record.getMessage()] == []


async def test_login_and_password(service: Service, connect: Connect) -> None:
    connect(login="me", password="pässword")
    service.accepted = {"Basic " + base64.b64encode("me:pässword".encode()).decode()}
    async with await open_workspace("ops") as workspace:
        await workspace.get_job(1)


async def test_a_rotated_token_is_read_from_the_connection(service: Service, connect: Connect) -> None:
    connect(password="dapi-one")
    service.accepted = {"Bearer dapi-one"}
    async with await open_workspace("ops") as workspace:
        await workspace.get_job(1)
        connect(password="dapi-two")
        service.accepted = {"Bearer dapi-two"}
        assert await workspace.get_job(1) == {"job_id": 1}
        await workspace.get_job(1)
    assert [headers["Authorization"] for headers in service.seen] == [
        "Bearer dapi-one",
        "Bearer dapi-one",
        "Bearer dapi-two",
        "Bearer dapi-two",
    ]


async def test_a_dead_token_is_an_error_that_names_no_token(service: Service, connect: Connect) -> None:
    connect(password="dapi-one")
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated) as caught:
            await workspace.get_job(1)
    assert len(service.seen) == 2
    assert "dapi" not in f"{caught.value!r} {workspace!r}"


async def test_a_connection_that_moved_is_not_followed(service: Service, connect: Connect) -> None:
    connect(password="dapi-one")
    async with await open_workspace("ops") as workspace:
        connect(password="dapi-one", host="127.0.0.2")
        with pytest.raises(InvalidArgument, match="'ops' now names"):
            await workspace.get_job(1)


async def test_a_connection_that_does_not_exist() -> None:
    with pytest.raises(InvalidArgument, match="'nowhere' does not exist"):
        await open_workspace("nowhere")


@pytest.mark.parametrize("host", ["", None])
async def test_a_connection_without_a_host(connect: Connect, host: str | None) -> None:
    connect(host=host, password="dapi-one")
    with pytest.raises(InvalidArgument, match="'ops' has no host"):
        await open_workspace("ops")


async def test_a_connection_without_credentials(connect: Connect) -> None:
    connect()
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated, match="'ops' holds no credentials"):
            await workspace.get_job(1)


async def test_many_calls_share_one_login(service: Service, connect: Connect) -> None:
    connect(password="dapi-one")
    service.accepted = {"Bearer dapi-one"}
    async with await open_workspace("ops") as workspace:
        await asyncio.gather(*(workspace.get_job(n) for n in range(8)))
    assert len(service.seen) == 8


async def test_a_token_service_that_is_down_is_tried_again(connect: Connect) -> None:
    connect(login="id", password="the-secret", extra=json.dumps({"service_principal_oauth": True}))
    async with await open_workspace("ops", budget_seconds=1.0) as workspace:
        with pytest.raises(Unavailable, match="no token for the Airflow connection 'ops'") as caught:
            await workspace.get_job(1)
    assert "the-secret" not in str(caught.value)


def test_in_a_worker_inside_asyncio_run(connect: Connect, service: Service) -> None:
    async def twice() -> str:
        async with await open_workspace("ops") as workspace:
            return workspace.host

    connect(password="dapi-one")
    assert asyncio.run(twice()) == asyncio.run(twice()) == f"http://127.0.0.1:{service.port}"


def test_the_official_hook_still_has_the_names_that_we_use() -> None:
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    missing = [name for name in OFFICIAL_NAMES if not hasattr(DatabricksHook, name)]
    assert missing == []
    for name in ("_a_cache_databricks_conn", "_a_get_aad_headers", "_a_get_token", "__aenter__", "__aexit__"):
        assert inspect.iscoroutinefunction(getattr(DatabricksHook, name)), name
    assert {"databricks_conn_id", "retry_limit", "caller"} <= set(inspect.signature(DatabricksHook).parameters)
    assert list(inspect.signature(DatabricksHook._get_aiohttp_kwargs).parameters) == ["self", "url"]
    assert "_log" in vars(DatabricksHook(caller="test")) or hasattr(DatabricksHook, "_log")


def test_nothing_heavy_is_imported_when_a_dag_is_parsed() -> None:
    code = (
        "import sys, databricks_bridge.hooks, databricks_bridge.hooks.databricks, databricks_bridge.workspace.client, "
        "databricks_bridge.delta.model, databricks_bridge.delta.resolve, databricks_bridge.delta.log\n"
        "heavy = ('aiohttp', 'obstore', 'tenacity', 'aiolimiter', 'deltalake', 'pyarrow', 'databricks', 'airflow')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
