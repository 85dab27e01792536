"""Azure's logins by the official hook's own code and the real azure-identity, against a declared Entra ID."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databricks_bridge.core.errors import BadAnswer, NotAuthenticated, Unavailable
from databricks_bridge.hooks.databricks import open_workspace
from databricks_bridge.local.tls import certificates
from tests.hooks.azure_kit import CLIENT_ID, DATABRICKS, MANAGEMENT, RESOURCE_ID, SECRET, TENANT, Cloud, azure
from tests.hooks.logins_kit import Clock, Issuer, trust, unblocked

Connect = Callable[..., None]
PRINCIPAL = {"login": CLIENT_ID, "password": SECRET, "azure_tenant_id": TENANT}
ELSEWHERE = ("IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT", "MSI_SECRET", "AZURE_CLIENT_SECRET")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    clock.rules(monkeypatch)
    return clock


@pytest.fixture
async def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cloud]:
    made = certificates(tmp_path / "tls", (), time.time())
    trust(made.ca_file, monkeypatch)
    monkeypatch.setenv("NO_PROXY", "*")
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    async with azure(made.server_file) as cloud:
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", cloud.authority)
        yield cloud


@pytest.fixture
def connect(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Connect:
    def write(*, login: str | None = None, password: str | None = None, **extra: Any) -> None:
        fields = {"conn_type": "databricks", "schema": "http", "host": "127.0.0.1", "port": cloud.workspace_port}
        fields |= {"login": login, "password": password, "extra": json.dumps(extra)}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(fields))

    return write


async def test_a_service_principal_s_token_is_shared_and_fetched_anew_before_it_ends(
    cloud: Cloud, connect: Connect, clock: Clock
) -> None:
    connect(**PRINCIPAL)
    async with unblocked(), await open_workspace("ops") as workspace:
        await asyncio.gather(*(workspace.get_job(1) for _ in range(4)))
        assert [(form["client_id"], form["scope"]) for form in cloud.asked] == [(CLIENT_ID, f"{DATABRICKS}/.default")]
        clock.ahead = cloud.seconds - 200
        await workspace.get_job(1)
        assert len(cloud.asked) == 1
        clock.ahead = cloud.seconds - 60
        cloud.seconds *= 2  # its tokens end by real time
        await asyncio.gather(*(workspace.get_job(1) for _ in range(4)))
        assert len(cloud.asked) == 2


async def test_a_token_that_the_workspace_refuses_is_replaced_once(cloud: Cloud, connect: Connect) -> None:
    connect(**PRINCIPAL)
    async with await open_workspace("ops") as workspace:
        await workspace.get_job(1)
        cloud.issued.clear()
        assert await workspace.get_job(1) == {"job_id": 1}
    assert (len(cloud.asked), len(cloud.seen)) == (2, 3)


async def test_a_principal_from_outside_of_the_workspace_sends_its_management_token(
    cloud: Cloud, connect: Connect
) -> None:
    connect(**PRINCIPAL, azure_resource_id=RESOURCE_ID)
    async with await open_workspace("ops") as workspace:
        await asyncio.gather(*(workspace.get_job(1) for _ in range(4)))
    sent = cloud.seen[0]
    assert sent["X-Databricks-Azure-Workspace-Resource-Id"] == RESOURCE_ID
    assert cloud.issued[sent["X-Databricks-Azure-SP-Management-Token"]] == MANAGEMENT
    assert cloud.issued[sent["Authorization"].removeprefix("Bearer ")] == DATABRICKS
    assert [form["scope"] for form in cloud.asked] == [f"{MANAGEMENT}/.default", f"{DATABRICKS}/.default"]


@pytest.mark.parametrize("repeats", [False, True])
async def test_a_wrong_secret_is_one_clear_error_without_the_secret(
    cloud: Cloud, connect: Connect, caplog: pytest.LogCaptureFixture, repeats: bool
) -> None:
    cloud.repeats = repeats
    connect(**PRINCIPAL | {"password": "Q~not-this-one"})
    with caplog.at_level(logging.DEBUG):
        async with await open_workspace("ops") as workspace:
            with pytest.raises(NotAuthenticated) as caught:
                await workspace.get_job(1)
    assert cloud.seen == []
    assert str(caught.value) == (
        "no token for the Airflow connection 'ops': Microsoft Entra ID error '(invalid_client) AADSTS7000215: Invalid "
        f"client secret provided.{'***' if repeats else ''}'"
    )
    assert "Q~not-this-one" not in f"{caught.value!r} {caught.value.__cause__!r} {workspace!r}"
    # what the service says, azure-identity logs; Entra ID itself does not repeat what it was sent
    assert repeats or "Q~not-this-one" not in caplog.text


async def test_azure_identity_is_imported_in_a_thread(
    cloud: Cloud, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes half a second, in which no other trigger would move."""
    from databricks_bridge.hooks import databricks as hooks

    seen: list[tuple[str, bool]] = []

    def note(name: str) -> None:
        seen.append((name, threading.current_thread() is threading.main_thread()))

    monkeypatch.setattr(hooks, "importlib", SimpleNamespace(import_module=note))
    monkeypatch.delitem(sys.modules, "azure.identity.aio", raising=False)
    connect(**PRINCIPAL)
    async with await open_workspace("ops") as workspace:
        await workspace.get_job(1)
        await workspace.get_job(1)
    assert seen == [("azure.identity.aio", False)]


async def test_a_tenant_that_does_not_exist(cloud: Cloud, connect: Connect) -> None:
    connect(**PRINCIPAL | {"azure_tenant_id": "22222222-2222-3333-4444-555555555555"})
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated, match="AADSTS90002"):
            await workspace.get_job(1)


async def test_an_authority_that_does_not_answer_ends_the_try_and_blocks_nobody(cloud: Cloud, connect: Connect) -> None:
    connect(**PRINCIPAL)
    cloud.hold.clear()
    async with unblocked(), await open_workspace("ops", budget_seconds=0.5) as workspace:
        with pytest.raises(Unavailable, match="no credentials in 1 s"):
            await workspace.get_job(1)
        cloud.hold.set()
        assert await workspace.get_job(1) == {"job_id": 1}


async def test_an_authority_that_is_not_trusted(
    cloud: Cloud, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from azure.core.pipeline.transport import AioHttpTransport

    async def no_pause(*_: object) -> None:
        """Of azure-core, which tries a connection three times more."""

    monkeypatch.setattr(AioHttpTransport, "sleep", no_pause)
    trust(certificates(tmp_path / "another", (), time.time()).ca_file, monkeypatch)
    connect(**PRINCIPAL)
    async with await open_workspace("ops") as workspace:
        with pytest.raises(BadAnswer, match="'ops': the server's certificate is not trusted"):
            await workspace.get_job(1)
    assert cloud.asked == []


@pytest.mark.parametrize("identity", [{}, {"azure_managed_identity_client_id": CLIENT_ID}])
async def test_a_machine_s_own_identity(
    cloud: Cloud, connect: Connect, monkeypatch: pytest.MonkeyPatch, identity: dict[str, str]
) -> None:
    metadata_service_is(cloud, monkeypatch)
    connect(use_azure_managed_identity=True, **identity)
    async with unblocked(), await open_workspace("ops") as workspace:
        await asyncio.gather(*(workspace.get_job(1) for _ in range(4)))
    assert [(one["resource"], one.get("client_id")) for one in cloud.asked] == [
        (DATABRICKS, identity.get("azure_managed_identity_client_id"))
    ]


async def test_an_identity_that_the_machine_has_not(
    cloud: Cloud, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata_service_is(cloud, monkeypatch)
    connect(use_azure_managed_identity=True, azure_managed_identity_client_id="another")
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated, match="has not been assigned to this resource"):
            await workspace.get_job(1)


async def test_a_machine_that_is_not_in_azure(connect: Connect, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata_service_is(cloud, monkeypatch)
    from airflow.providers.databricks.hooks import databricks_base

    monkeypatch.setattr(databricks_base, "AZURE_METADATA_SERVICE_INSTANCE_URL", f"{cloud.metadata}/nothing")
    connect(use_azure_managed_identity=True)
    async with await open_workspace("ops", budget_seconds=0.5) as workspace:
        with pytest.raises(Unavailable, match="Can't reach Azure Metadata Service: 404"):
            await workspace.get_job(1)


def metadata_service_is(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address is link-local and fixed, in the official hook by a constant."""
    from airflow.providers.databricks.hooks import databricks_base

    monkeypatch.setattr(databricks_base, "AZURE_METADATA_SERVICE_INSTANCE_URL", f"{cloud.metadata}/metadata/instance")
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", cloud.metadata)


async def test_workload_identity_reads_its_file_for_each_token_and_leaves_nothing_open(
    cloud: Cloud,
    connect: Connect,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    issuer, file = Issuer(), tmp_path / "federated-token"
    monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
    monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
    connect(use_default_azure_credential=True)
    cloud.assertion = issuer.token()
    file.write_text(cloud.assertion)
    async with unblocked(), await open_workspace("ops") as workspace:
        await asyncio.gather(*(workspace.get_job(1) for _ in range(4)))
        assert [form["client_assertion"] for form in cloud.asked] == [cloud.assertion]
        clock.ahead = cloud.seconds - 60
        cloud.assertion = issuer.token(seconds=700)
        file.write_text(cloud.assertion)
        await workspace.get_job(1)
        assert cloud.asked[1]["client_assertion"] == cloud.assertion
    gc.collect()
    await asyncio.sleep(0)
    assert "Unclosed" not in caplog.text


async def test_workload_identity_that_is_refused(
    cloud: Cloud, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "federated-token"
    file.write_text("not the one that is trusted")
    monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
    monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
    connect(use_default_azure_credential=True)
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated, match="AADSTS7000215"):
            await workspace.get_job(1)
