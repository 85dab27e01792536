"""The Airflow keep over REST: what it refuses, against an API that can be set; and all of it against a real Airflow."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from databricks_bridge.core.errors import LedgerError, RecordTooLarge, WriteLost
from databricks_bridge.core.record import Record
from databricks_bridge.ledgers.airflow import KEY
from databricks_bridge.ledgers.airflow_rest import AirflowApi, AirflowRestKeep
from demo import airflow_home
from demo.places import Places
from demo.processes import Services, wait_until
from tests.core.builders import NOW, at

FIRST = Record("delays", "consumer", {"flights": at(3)}).after(NOW, "started")
DEFAULT = {
    ("state_store", "backend"): "airflow.state.metastore.MetastoreBackend",
    ("workers", "state_store_backend"): "",
}


@dataclass
class Api:
    """Airflow's API in shape: one asset, its state store, and its configuration unless `hidden`."""

    config: dict[tuple[str, str], str] = field(default_factory=lambda: dict(DEFAULT))
    hidden: bool = False
    stored: dict[str, Any] = field(default_factory=dict)
    assets: tuple[str, ...] = ("databricks_bridge.delays",)
    logins: int = 0
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        path = request.path
        if path == "/auth/token":
            self.logins += 1
            right = await request.json() == {"username": "ada", "password": "pw"}
            return web.json_response(
                {"access_token": "jwt"} if right else {"detail": "no"}, status=201 if right else 401
            )
        if request.headers.get("Authorization") != "Bearer jwt":
            return web.json_response({"detail": "Not authenticated"}, status=401)
        if path.startswith("/api/v2/config/"):
            return self._config(request.match_info["section"], request.match_info["option"])
        if path == "/api/v2/assets":
            start, limit = int(request.query["offset"]), int(request.query["limit"])
            rows = [{"id": number, "name": name} for number, name in enumerate(self.assets, 1)]
            return web.json_response({"assets": rows[start : start + limit], "total_entries": len(rows)})
        key = request.match_info["key"]
        if request.method == "PUT":
            self.stored[key] = (await request.json())["value"]
            return web.Response(status=204)
        if key not in self.stored:
            return web.json_response({"detail": "not found"}, status=404)
        return web.json_response({"key": key, "value": self.stored[key]})

    def _config(self, section: str, option: str) -> web.Response:
        if self.hidden:
            return web.json_response({"detail": "not exposed"}, status=403)
        options = [{"key": option, "value": self.config[section, option]}]
        return web.json_response({"sections": [{"name": section, "options": options}]})


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    state = Api()
    app = web.Application()
    app.router.add_route("*", "/auth/token", state.handle)
    app.router.add_route("*", "/api/v2/config/section/{section}/option/{option}", state.handle)
    app.router.add_route("*", "/api/v2/assets", state.handle)
    app.router.add_route("*", "/api/v2/assets/{id}/state-store/{key}", state.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    state.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    yield state
    await runner.cleanup()


@pytest.fixture
async def keep(api: Api) -> AsyncIterator[AirflowRestKeep]:
    async with AirflowApi(api.url, user="ada", password="pw") as client:
        yield AirflowRestKeep(client)


async def test_a_record_is_written_and_read(api: Api, keep: AirflowRestKeep) -> None:
    ledger = keep.ledger("delays")
    assert await ledger.read() is None
    await ledger.write(FIRST)
    assert api.stored == {KEY: FIRST.to_json()}
    assert await ledger.read() == FIRST
    assert await keep.names() == ["delays"]
    assert [one.what for one in await ledger.history(3)] == ["started"]
    assert api.logins == 1


async def test_only_the_next_revision_is_taken(keep: AirflowRestKeep) -> None:
    ledger = keep.ledger("delays")
    await ledger.write(FIRST)
    with pytest.raises(WriteLost):
        await ledger.write(FIRST)


async def test_a_large_record_is_refused(keep: AirflowRestKeep) -> None:
    with pytest.raises(RecordTooLarge, match="object store"):
        await keep.ledger("delays").write(replace(FIRST, consumer="x" * 60_000))


@pytest.mark.parametrize("place", DEFAULT)
async def test_another_state_store_backend_is_refused(api: Api, keep: AirflowRestKeep, place: tuple[str, str]) -> None:
    api.config[place] = "acme.state.Backend"
    with pytest.raises(LedgerError, match=rf"has \[{place[0]}\] {place[1]} = acme\.state\.Backend"):
        await keep.ledger("delays").read()
    assert api.stored == {}


async def test_a_record_that_is_kept_elsewhere_is_refused(api: Api, keep: AirflowRestKeep) -> None:
    api.hidden, api.stored = True, {KEY: {"__airflow_state_ref__": "s3://x"}}
    with pytest.raises(LedgerError, match="another state store backend"):
        await keep.ledger("delays").read()


async def test_with_hidden_configuration_only_a_record_that_is_there_can_be_written(
    api: Api, keep: AirflowRestKeep
) -> None:
    api.hidden = True
    ledger = keep.ledger("delays")
    with pytest.raises(LedgerError, match=r"\[api\] expose_config = true"):
        await ledger.write(FIRST)
    api.stored = {KEY: FIRST.to_json()}
    await ledger.write(FIRST.after(NOW, "again"))


async def test_an_asset_among_many_is_found_by_its_exact_name(api: Api, keep: AirflowRestKeep) -> None:
    api.assets = (*(f"databricks_bridge.delays_{n}" for n in range(150)), "databricksXbridge.delays")
    with pytest.raises(LedgerError, match="knows no subscription 'delays': a DAG file that uses it has to be parsed"):
        await keep.ledger("delays").read()
    api.assets = (*api.assets, "databricks_bridge.delays")
    assert await keep.asset_id("delays") == 152


async def test_a_refused_login_does_not_show_the_password(api: Api) -> None:
    async with AirflowApi(api.url, user="ada", password="s3cr3t") as client:
        with pytest.raises(LedgerError, match="refuses the login of 'ada'") as raised:
            await AirflowRestKeep(client).names()
    assert "s3cr3t" not in str(raised.value)


async def test_without_a_login_it_says_what_it_needs(api: Api) -> None:
    async with AirflowApi(api.url) as client:
        with pytest.raises(LedgerError, match="give a token, or a user and a password"):
            await AirflowRestKeep(client).names()


async def test_an_airflow_that_is_not_there_is_a_ledger_error() -> None:
    async with AirflowApi("http://127.0.0.1:9", token="jwt") as client:
        with pytest.raises(
            LedgerError, match=r"Airflow at http://127\.0\.0\.1:9 does not answer .*: nothing listens there"
        ):
            await AirflowRestKeep(client).names()


DAG_FILE = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

from databricks_bridge import DeltaTable, Subscription

delays = Subscription("delays", [DeltaTable("main.silver.flights", databricks_conn_id="ops")], start="latest")

late = Asset(name='databricks_bridge.late', uri='x-databricks-bridge://subscription/late')

with DAG("uses_delays", schedule=None):
    EmptyOperator(task_id="uses", inlets=[delays.asset, late])
"""


@dataclass(frozen=True)
class Airflow:
    """A real API server, and how to log in."""

    url: str
    password: str


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    home = tmp_path_factory.mktemp("airflow")
    places = Places(home)
    prepared = airflow_home.prepare(places)
    (home / "dags").mkdir()
    (home / "dags" / "uses_delays.py").write_text(DAG_FILE)
    bundle = {
        "name": "tests",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(home / "dags")},
    }
    environment = airflow_home.environment(prepared, places, []) | {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW__API__EXPOSE_CONFIG": "true",
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, "-m", "airflow"]
    for words in (["db", "migrate"], ["dags", "reserialize"]):
        subprocess.run([*command, *words], env=environment, check=True, capture_output=True, timeout=180)
    services = Services(places)
    services.start("api-server", [*command, "api-server", "--port", str(prepared.port)], environment, home)

    def answers() -> bool:
        try:
            return httpx.get(f"{prepared.url}/api/v2/version", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, "Airflow's API server", 120, services.check)
        yield Airflow(prepared.url, prepared.password)
    finally:
        services.stop()


@pytest.mark.airflow
async def test_a_real_airflow_keeps_records(airflow: Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with AirflowApi(airflow.url, user=airflow_home.USER, password=airflow.password) as client:
        keep = AirflowRestKeep(client)
        ledger = keep.ledger("delays")
        assert await keep.backend_is_known() is True
        assert await ledger.read() is None
        assert await keep.names() == []
        await ledger.write(FIRST)
        second = FIRST.after(NOW, "again")
        await ledger.write(second)
        with pytest.raises(WriteLost):
            await ledger.write(second)
        assert await AirflowRestKeep(client).ledger("delays").read() == second
        assert await keep.names() == ["delays"]
        with pytest.raises(LedgerError, match="knows no subscription 'other'"):
            await keep.ledger("other").read()


@pytest.fixture
def command(airflow: Airflow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """The console command, led to this Airflow, where `delays` has a record."""
    from databricks_bridge.cli import main

    password = tmp_path / "password"
    password.write_text(f"{airflow.password}\n")
    for name, value in (
        ("NO_PROXY", "127.0.0.1"),
        ("DATABRICKS_BRIDGE_AIRFLOW_URL", airflow.url),
        ("DATABRICKS_BRIDGE_AIRFLOW_USER", airflow_home.USER),
        ("DATABRICKS_BRIDGE_AIRFLOW_PASSWORD_FILE", str(password)),
        ("AIRFLOW__DATABRICKS_BRIDGE__LEDGER", "airflow"),
    ):
        monkeypatch.setenv(name, value)

    async def first() -> None:
        async with AirflowApi(airflow.url, user=airflow_home.USER, password=airflow.password) as client:
            ledger = AirflowRestKeep(client).ledger("delays")
            if await ledger.read() is None:
                await ledger.write(FIRST)

    asyncio.run(first())
    return lambda *words: main(words)


@pytest.mark.airflow
def test_the_command_moves_a_subscription_out_of_airflow_and_back(
    airflow: Airflow, tmp_path: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path.as_uri()
    why = ("--why", "more history", "--by", "ada", "--yes")
    assert command("subscription", "move", "delays", "--to", folder, *why) == 0
    assert command("status", "--json") == 0
    out = capsys.readouterr().out
    assert airflow.password not in out
    assert f'"moved_to": "{folder}"' in out
    assert command("watermark", "rewind", "delays", "flights", "1", "--ledger", folder, *why) == 0
    assert command("subscription", "move", "delays", "--ledger", folder, "--to", "airflow", *why) == 0
    capsys.readouterr()
    assert command("watermark", "get", "delays", "flights") == 0
    assert capsys.readouterr().out == "flights: version 1\n"


@pytest.mark.airflow
def test_the_command_renames_and_retires_in_airflow(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    why = ("--why", "it is not about delays alone", "--by", "ada", "--yes")
    assert command("subscription", "rename", "delays", "unknown", *why) == 1
    told = capsys.readouterr().err
    assert "knows no subscription 'unknown'" in told
    assert "inlets=[Asset(name='databricks_bridge.unknown'" in told
    assert command("subscription", "rename", "delays", "late", *why) == 0
    assert command("subscription", "retire", "late", *why) == 0
    assert command("subscription", "rename", "late", "delays", *why) == 1
    capsys.readouterr()
    assert command("subscription", "list") == 0
    assert capsys.readouterr().out == "delays: renamed to late\nlate: retired\n"
    assert command("subscription", "retire", "late", "--undo", *why) == 0
    assert command("subscription", "rename", "late", "delays", *why) == 0
    capsys.readouterr()
    assert command("subscription", "list") == 0
    assert capsys.readouterr().out == "delays: consumer\nlate: renamed to delays\n"
