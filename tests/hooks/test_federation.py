"""Workload identity by the official hook's own code: a token of another issuer is exchanged for one of the workspace."""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core.errors import NotAuthenticated
from databricks_bridge.hooks.databricks import open_workspace
from tests.hooks.logins_kit import Issuer, Site, site_on_port_443

HOUR = 3600
ISSUER = Issuer()
LIST = "/api/2.2/jobs/list"
supplied: list[str] = []


def supply() -> str:
    """What `federated_token_provider` names: the last token is the one that it gives."""
    return supplied[-1]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site_on_port_443(tmp_path / "home", monkeypatch) as site:
        site.rest.call("POST", "/local/federation-policies", ISSUER.policy())
        yield site


@dataclass(frozen=True)
class TokenFile:
    """The projected service account token of a pod."""

    path: Path

    def hold(self, token: str | None) -> None:
        self.path.unlink(missing_ok=True)
        if token is not None:
            self.path.write_text(token)


@pytest.fixture
def file(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    """And the connection that names it."""
    extra = {"client_id": site.client_id, "k8s_projected_volume_token_path": str(tmp_path / "token")}
    site.connect(monkeypatch, {"federated_k8s": True, **extra})
    found = TokenFile(tmp_path / "token")
    found.hold(ISSUER.token())
    return found


@pytest.fixture
def without_aiofiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider does not bring it, and its own asynchronous way takes it."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "aiofiles":
            raise ModuleNotFoundError("No module named 'aiofiles'", name="aiofiles")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)


@pytest.mark.usefixtures("without_aiofiles")
async def test_a_service_account_of_kubernetes(site: Site, file: TokenFile) -> None:
    async with await open_workspace("ops") as workspace:
        await asyncio.gather(*(workspace.get(LIST) for _ in range(4)))
        assert site.issued() == 1
        site.clock.ahead = HOUR - 60
        file.hold(ISSUER.token(now=site.clock.time()))
        await workspace.get(LIST)
        assert site.issued() == 2
        site.expire_tokens()
        await workspace.get(LIST)
        assert site.issued() == 1


async def test_a_token_that_has_expired_is_refused_and_not_shown(
    site: Site, file: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    token = ISSUER.token(seconds=-1)
    file.hold(token)
    with caplog.at_level(logging.DEBUG):
        async with await open_workspace("ops") as workspace:
            with pytest.raises(NotAuthenticated, match=r"'ops': .*fits no federation policy: it has expired") as caught:
                await workspace.get(LIST)
    assert token not in f"{caught.value!r} {caplog.text}"
    assert site.issued() == 0


async def test_a_file_that_is_not_there(site: Site, file: TokenFile) -> None:
    file.hold(None)
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated, match="projected volume token not found"):
            await workspace.get(LIST)


async def test_a_function_that_supplies_the_token(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.connect(monkeypatch, {"federated_token_provider": f"{__name__}.supply", "client_id": site.client_id})
    supplied[:] = [ISSUER.token(sub="somebody else")]
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated, match=r"'ops'.*Status Code: 400"):
            await workspace.get(LIST)
        supplied.append(ISSUER.token())
        await workspace.get(LIST)
    assert site.issued() == 1


async def test_a_function_that_is_not_there(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.connect(monkeypatch, {"federated_token_provider": f"{__name__}.nothing", "client_id": site.client_id})
    async with await open_workspace("ops") as workspace:
        with pytest.raises(NotAuthenticated, match='does not define a "nothing"'):
            await workspace.get(LIST)
