"""Reported faults of neighbours that belong to logins, each by its number."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from databricks_bridge.hooks.databricks import open_workspace
from databricks_bridge.local.tls import certificates
from tests.hooks.azure_kit import CLIENT_ID, SECRET, TENANT, azure
from tests.hooks.logins_kit import Issuer, Site, site_on_port_443, trust

POLLS = 200
ME = "/api/2.0/preview/scim/v2/Me"
ISSUER = Issuer()


@pytest.fixture
def never_blocking(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the loop of a triggerer the blocking way to a connection raises."""
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    def raises(*_: object, **__: object) -> Any:
        raise RuntimeError("You cannot use AsyncToSync in the same thread as an async event loop")

    monkeypatch.setattr(DatabricksHook, "get_connection", raises)


@pytest.fixture
def unpaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own rates, of ten calls a second, are not the point here."""
    from databricks_bridge.workspace import limits

    monkeypatch.setattr(limits, "_SHARE", 1000.0)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site_on_port_443(tmp_path / "home", monkeypatch) as site:
        yield site


async def polls(renewed: Any) -> None:
    """So many polls of one client, with a token that is lost half way; no socket more at the end than at the first."""
    process = psutil.Process()
    async with await open_workspace("ops") as workspace:
        await workspace.get(ME)
        before = len(process.net_connections())
        for poll in range(POLLS):
            if poll == POLLS // 2:
                renewed()
            await workspace.get(ME)
        assert len(process.net_connections()) <= before + 2  # a connection of ours counts at both of its ends
    gc.collect()
    await asyncio.sleep(0)


@pytest.mark.usefixtures("never_blocking", "unpaced")
@pytest.mark.parametrize("kind", ["principal", "file"])
async def test_E08_every_login_of_databricks_lasts_and_leaves_nothing_open(
    site: Site, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logins: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "principal": ({"service_principal_oauth": True}, {"login": site.client_id, "password": site.client_secret}),
        "file": (
            {"client_id": site.client_id, "k8s_projected_volume_token_path": str(write(tmp_path, ISSUER.token()))},
            {"login": "federated_k8s"},
        ),
    }
    site.rest.call("POST", "/local/federation-policies", ISSUER.policy())
    extra, fields = logins[kind]
    site.connect(monkeypatch, extra, **fields)
    await polls(site.expire_tokens)
    assert "Unclosed" not in caplog.text
    assert site.issued() == 1


@pytest.mark.usefixtures("never_blocking", "unpaced")
@pytest.mark.parametrize("kind", ["principal", "workload identity"])
async def test_E08_every_login_of_azure_lasts_and_leaves_nothing_open(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = certificates(tmp_path / "tls", (), time.time())
    trust(made.ca_file, monkeypatch)
    async with azure(made.server_file) as cloud:
        cloud.assertion = ISSUER.token()
        environment = {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_ID": CLIENT_ID, "NO_PROXY": "*"}
        environment |= {"AZURE_AUTHORITY_HOST": cloud.authority}
        environment |= {"AZURE_FEDERATED_TOKEN_FILE": str(write(tmp_path, cloud.assertion))}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        logins = {
            "principal": {"login": CLIENT_ID, "password": SECRET, "extra": json.dumps({"azure_tenant_id": TENANT})},
            "workload identity": {"extra": json.dumps({"use_default_azure_credential": True})},
        }
        connection = {"conn_type": "databricks", "host": f"http://127.0.0.1:{cloud.workspace_port}", **logins[kind]}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        await polls(cloud.issued.clear)
        assert len(cloud.asked) == 2
    assert "Unclosed" not in caplog.text


def write(folder: Path, token: str) -> Path:
    file = folder / "federated-token"
    file.write_text(token)
    return file
