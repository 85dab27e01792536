"""Each place that takes a URL: its password is in no error, no repr and no cause of an error: T44."""

from __future__ import annotations

import asyncio
import traceback
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest

from databricks_bridge.cli.session import Session
from databricks_bridge.core.errors import BridgeError, InvalidArgument
from databricks_bridge.core.postconditions import CheckpointReached
from databricks_bridge.delta.locations import parse_location
from databricks_bridge.delta.sharing import read_profile
from databricks_bridge.ledgers.address import parse_address
from databricks_bridge.ledgers.airflow_rest import AirflowApi
from databricks_bridge.local.git import GitFailed, checked_url, git
from databricks_bridge.workspace.client import Workspace

SECRET = "pa55-w0rd"


async def nobody() -> dict[str, str]:
    return {}


REFUSED: dict[str, Callable[[], Any]] = {
    "host of a workspace": lambda: Workspace(f"https://user:{SECRET}@host", nobody),
    "host without a scheme": lambda: Workspace(f"//user:{SECRET}@host", nobody),
    "ledger in s3": lambda: parse_address(f"s3://KEY:{SECRET}@bucket/p"),
    "ledger in a folder": lambda: parse_address(f"file://u:{SECRET}@host/p"),
    "ledger by http": lambda: parse_address(f"http://u:{SECRET}@host/p"),
    "ledger in Azure": lambda: parse_address(f"abfss://c:{SECRET}@account.dfs.core.windows.net/p"),
    "ledger that is no URL": lambda: parse_address(f"s3://u:{SECRET}@[bucket/p"),
    "ledger with a signature": lambda: parse_address(f"https://account/p?sig={SECRET}"),
    "table in s3": lambda: parse_location(f"s3://KEY:{SECRET}@bucket/p"),
    "table by http": lambda: parse_location(f"http://KEY:{SECRET}@bucket/p"),
    "table in Azure": lambda: parse_location(f"abfss://c:{SECRET}@account.dfs.core.windows.net/p"),
    "checkpoint in s3": lambda: CheckpointReached(f"s3://KEY:{SECRET}@bucket/p"),
    "checkpoint by http": lambda: CheckpointReached(f"http://KEY:{SECRET}@bucket/p"),
    "remote of a Git folder": lambda: checked_url(f"https://u:{SECRET}@host/r.git"),
    "Airflow that is no URL": lambda: AirflowApi(f"http://u:{SECRET}@host:port"),
    "sharing profile": lambda: read_profile(
        {"shareCredentialsVersion": 1, "endpoint": f"https://u:{SECRET}@host", "bearerToken": "t"}
    ),
}


@pytest.mark.parametrize("place", REFUSED)
def test_a_password_in_a_url_is_refused_and_not_shown(place: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        REFUSED[place]()
    assert SECRET not in "".join(traceback.format_exception(refused.value, chain=True))
    assert SECRET not in str(refused.value)


def test_airflows_url_may_hold_the_login_and_nothing_shows_it() -> None:
    api = AirflowApi(f"http://user:{SECRET}@127.0.0.1:1/")
    assert repr(api) == "AirflowApi('http://127.0.0.1:1')"
    assert str(api) == "Airflow at http://127.0.0.1:1"
    assert (api._user, api._password) == ("user", SECRET)

    async def call() -> None:
        async with api:
            await api.call("GET", "/api/v2/assets")

    with pytest.raises(BridgeError) as failed:
        asyncio.run(call())
    shown = "".join(traceback.format_exception(failed.value, chain=True))
    assert SECRET not in shown
    assert "POST /auth/token" in shown


def test_the_command_line_does_not_show_it_either(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "PASSWORD", "USER", "PASSWORD_FILE", "TOKEN_FILE"):
        monkeypatch.delenv(f"DATABRICKS_BRIDGE_AIRFLOW_{name}", raising=False)
    monkeypatch.setenv("DATABRICKS_BRIDGE_AIRFLOW_URL", f"http://host/?token={SECRET}")
    session = Session(Namespace(airflow_url=None, airflow_user=None))
    with pytest.raises(InvalidArgument) as refused:
        session._airflow()
    assert SECRET not in str(refused.value)


def test_git_does_not_show_the_login_of_a_remote() -> None:
    with pytest.raises(GitFailed) as failed:
        asyncio.run(git("ls-remote", f"https://user:{SECRET}@with@at@127.0.0.1:1/r.git"))
    assert SECRET not in str(failed.value)
