"""The addresses of ledgers: which are taken, which are refused at parse, and what they open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.ledgers.address import (
    Address,
    AirflowAddress,
    ControlTableAddress,
    ObjectStoreAddress,
    open_ledger,
    parse_address,
)
from databricks_bridge.ledgers.memory import MemoryLedger


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("airflow", AirflowAddress()),
        ("s3://bucket/a/b/", ObjectStoreAddress("s3://bucket/a/b")),
        ("s3://bucket", ObjectStoreAddress("s3://bucket")),
        ("gs://bucket/a", ObjectStoreAddress("gs://bucket/a")),
        (
            "abfss://box@account.dfs.core.windows.net/a",
            ObjectStoreAddress("abfss://box@account.dfs.core.windows.net/a"),
        ),
        ("file:///srv/ledger", ObjectStoreAddress("file:///srv/ledger")),
        ("control-table:ops/abc123/main.bridge", ControlTableAddress("ops", "abc123", "main.bridge")),
    ],
)
def test_addresses_that_are_taken(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Airflow",
        "s3",
        "s3://",
        "s3:/bucket",
        "/srv/ledger",
        "file://",
        "file:///",
        "file://host/folder",
        "https://bucket.s3.amazonaws.com/a",
        "s3://bucket/a?region=x",
        "s3://bucket/a#b",
        "abfss://box/a",
        "abfss://box@account/a",
        "abfss://box@account.example.com/a",
        "abfss://box@account.dfs.evil/a",
        "s3://bucket//a",
        "gs://bucket/a/../b",
        "control-table:",
        "control-table:ops/main.bridge",
        "control-table:ops/wh/main",
        "control-table:ops/wh/main.bridge.table",
        "control-table:ops//main.bridge",
        "control-table:ops/wh/main.b;c",
        "postgres://host/db",
        "s3://[half",
        None,
        5,
    ],
)
def test_what_is_no_address_is_refused_at_parse(text: Any) -> None:
    with pytest.raises(InvalidArgument, match="ledger"):
        parse_address(text)


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse_address("s3://key:s3cr3t@bucket/a")
    assert "s3cr3t" not in str(raised.value)


async def no_workspace(name: str) -> Any:
    raise AssertionError(f"{name} was opened")


async def test_the_airflow_ledger_is_the_one_that_was_given() -> None:
    ours = MemoryLedger()
    assert open_ledger(AirflowAddress(), "delays", airflow=lambda: ours, workspace=no_workspace) is ours


async def test_an_object_store_ledger_opens(tmp_path: Path) -> None:
    address = parse_address(tmp_path.as_uri())
    ledger = open_ledger(address, "delays", airflow=MemoryLedger, workspace=no_workspace)
    assert await ledger.read() is None


async def test_a_control_table_asks_for_its_workspace_when_it_is_used() -> None:
    ledger = open_ledger(
        ControlTableAddress("ops", "wh", "main.bridge"), "delays", airflow=MemoryLedger, workspace=no_workspace
    )
    with pytest.raises(AssertionError, match="ops was opened"):
        await ledger.read()


def test_parsing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from databricks_bridge.ledgers.address import parse_address; parse_address('s3://b/p');"
        "sys.exit(any(name in sys.modules for name in ('obstore', 'aiohttp', 'airflow')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
