"""OAuth of a service principal, by the official hook's own code, against a token service on port 443."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core.errors import BadAnswer, NotAuthenticated
from databricks_bridge.hooks.databricks import open_workspace
from tests.hooks.logins_kit import Site, site_on_port_443

HOUR = 3600


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site_on_port_443(tmp_path / "home", monkeypatch) as site:
        site.connect(monkeypatch, {"service_principal_oauth": True}, login=site.client_id, password=site.client_secret)
        yield site


async def test_all_calls_share_one_token_which_is_fetched_anew_before_it_ends(site: Site) -> None:
    async with await open_workspace("ops") as workspace:
        assert site.issued() == 0
        await asyncio.gather(*(workspace.get("/api/2.2/jobs/list") for _ in range(4)))
        assert site.issued() == 1
        site.clock.ahead = HOUR - 200
        await workspace.get("/api/2.2/jobs/list")
        assert site.issued() == 1
        site.clock.ahead = HOUR - 60
        await asyncio.gather(*(workspace.get("/api/2.2/jobs/list") for _ in range(4)))
        assert site.issued() == 2
        site.clock.ahead = HOUR + 60
        await workspace.get("/api/2.2/jobs/list")
        assert site.issued() == 2


async def test_tokens_that_end_early_are_replaced_after_one_refusal(site: Site) -> None:
    async with await open_workspace("ops") as workspace:
        await workspace.get("/api/2.2/jobs/list")
        site.expire_tokens()
        await asyncio.gather(*(workspace.get("/api/2.2/jobs/list") for _ in range(4)))
        assert site.issued() == 1
        site.expire_tokens()
        job = {"name": "made once", "tasks": []}
        made = await workspace.post("/api/2.2/jobs/create", job, safe=False)
        assert site.issued() == 1
        listed = await workspace.get("/api/2.2/jobs/list", {"name": "made once"})
    assert [one["job_id"] for one in listed["jobs"]] == [made["job_id"]]


async def test_a_wrong_secret_is_one_clear_error_without_the_secret(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site.connect(monkeypatch, {"service_principal_oauth": True}, login=site.client_id, password="dose-not-this")
    with caplog.at_level(logging.DEBUG):
        async with await open_workspace("ops") as workspace:
            with pytest.raises(NotAuthenticated) as caught:
                await workspace.get("/api/2.2/jobs/list")
    assert str(caught.value) == "no token for the Airflow connection 'ops': HTTP 401 from the token service"
    assert "dose-not-this" not in f"{caught.value!r} {caught.value.__cause__!r} {workspace!r} {caplog.text}"
    assert site.issued() == 0


async def test_a_secret_that_was_corrected_is_read_from_the_connection(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.connect(monkeypatch, {"service_principal_oauth": True}, login=site.client_id, password="dose-not-this")
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated):
            await workspace.get("/api/2.2/jobs/list")
        site.connect(monkeypatch, {"service_principal_oauth": True}, login=site.client_id, password=site.client_secret)
        await workspace.get("/api/2.2/jobs/list")


async def test_a_login_without_a_name_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.connect(monkeypatch, {"service_principal_oauth": True})
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated, match="'ops': `login` must be present in Connection"):
            await workspace.get("/api/2.2/jobs/list")


async def test_a_token_service_that_is_not_trusted_is_not_asked_for_ever(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    site.connect(monkeypatch, {"service_principal_oauth": True}, login=site.client_id, password=site.client_secret)
    async with await open_workspace("ops") as workspace:
        with pytest.raises(BadAnswer, match="'ops': the server's certificate is not trusted") as caught:
            await workspace.get("/api/2.2/jobs/list")
    assert "SSL_CERT_FILE" in str(caught.value)


async def test_the_official_hook_takes_the_same_connection(site: Site) -> None:
    """Both its ways, on the same workspace: what it can do here, it can do there."""
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    def blocking() -> Any:
        return DatabricksHook("ops", retry_limit=1)._do_api_call(("GET", "2.2/jobs/list"))

    assert await asyncio.to_thread(blocking) == {"has_more": False}
    async with DatabricksHook("ops", retry_limit=1) as hook:
        assert await hook._a_do_api_call(("GET", "2.2/jobs/list")) == {"has_more": False}
    assert site.issued() == 2
