"""The addresses of keeps, as `ledger=` and `[databricks_bridge] ledger` have them.

`airflow` · `s3://bucket/prefix` · `abfss://container@account.dfs.core.windows.net/path` · `gs://bucket/prefix` ·
`file:///folder` · `control-table:conn_id/warehouse_id/catalog.schema`

Parsing imports nothing heavy: it happens in every DAG file.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.storage_urls import azure_blob_endpoint, unaddressable
from databricks_bridge.core.urls import redacted

if TYPE_CHECKING:
    from databricks_bridge.ledgers.protocol import Keep, Ledger
    from databricks_bridge.workspace.client import Workspace

KNOWN = (
    "airflow, s3://bucket/prefix, abfss://container@account.dfs.core.windows.net/path, gs://bucket/prefix, "
    "file:///folder or control-table:conn_id/warehouse_id/catalog.schema"
)
_CONTROL = "control-table:"
_SCHEMA = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class AirflowAddress:
    """The asset state store of this Airflow."""

    def __str__(self) -> str:
        return "airflow"


@dataclass(frozen=True)
class ObjectStoreAddress:
    """A folder in an object store, or on a disk that every Airflow process sees."""

    url: str

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class ControlTableAddress:
    """Two Delta tables in `schema`, by SQL on a warehouse of the workspace that `databricks_conn_id` opens."""

    databricks_conn_id: str
    warehouse_id: str
    schema: str

    def __str__(self) -> str:
        return f"{_CONTROL}{self.databricks_conn_id}/{self.warehouse_id}/{self.schema}"


Address: TypeAlias = AirflowAddress | ObjectStoreAddress | ControlTableAddress
OpenWorkspace: TypeAlias = "Callable[[str], Awaitable[Workspace]]"


def parse_address(text: object) -> Address:
    """The keep that `text` names. Raises InvalidArgument, saying what a ledger can be."""
    if not isinstance(text, str):
        raise InvalidArgument(f"ledger is {text!r}; give one of {KNOWN}")
    if text == "airflow":
        return AirflowAddress()
    if text.startswith(_CONTROL):
        return _control(text)
    try:
        url = urlsplit(text)
    except ValueError:
        raise InvalidArgument(f"ledger {redacted(text)!r} is not a URL; give one of {KNOWN}") from None
    if url.query or url.fragment or url.password or (url.username and url.scheme != "abfss"):
        raise InvalidArgument(
            "ledger has a user, password, query or fragment in its URL; credentials come from the environment, "
            f"give one of {KNOWN}"
        )
    if url.scheme == "file":
        if url.netloc or not url.path.strip("/"):
            raise InvalidArgument(
                f"ledger {redacted(text)!r} names no folder; write it absolute, as in file:///srv/ledger"
            )
    elif url.scheme == "abfss":
        container, _, host = url.netloc.rpartition("@")
        if not container or ":" in container or azure_blob_endpoint(host) is None:
            raise InvalidArgument(
                f"ledger {redacted(text)!r}: write abfss://container@account.dfs.core.windows.net/path, or the host of another Azure cloud"
            )
    elif url.scheme not in ("s3", "gs") or not url.netloc:
        raise InvalidArgument(f"ledger is {redacted(text)!r}; give one of {KNOWN}")
    if url.scheme != "file" and (odd := unaddressable(url.path.removeprefix("/"))):
        raise InvalidArgument(
            f"ledger {redacted(text)!r} has {odd} in its path, which the object store client cannot address"
        )
    return ObjectStoreAddress(text.rstrip("/"))


def open_keep(address: Address, *, airflow: Callable[[], Keep], workspace: OpenWorkspace) -> Keep:
    """The keep at this address; nothing is called yet.

    `airflow` makes the Airflow keep, by whichever way this process has to it. `workspace` opens a workspace by the name
    of its connection; whoever gives it closes what it opened.
    """
    if isinstance(address, AirflowAddress):
        return airflow()
    if isinstance(address, ObjectStoreAddress):
        from databricks_bridge.ledgers.object_store import ObjectStoreKeep

        return ObjectStoreKeep(address.url)
    from databricks_bridge.ledgers.control_table import ControlTableKeep
    from databricks_bridge.workspace.statements import Warehouse

    where = address

    async def warehouse() -> Warehouse:
        return Warehouse(await workspace(where.databricks_conn_id), where.warehouse_id, wait_seconds=10)

    return ControlTableKeep(warehouse, address.schema)


def open_ledger(
    address: Address, subscription: str, *, airflow: Callable[[], Ledger], workspace: OpenWorkspace
) -> Ledger:
    """The keep of one subscription's record. `airflow` is called only for the address `airflow`; see `open_keep`."""
    if isinstance(address, AirflowAddress):
        return airflow()

    def never() -> Keep:
        raise AssertionError("the address is not Airflow's")

    return open_keep(address, airflow=never, workspace=workspace).ledger(subscription)


def _control(text: str) -> ControlTableAddress:
    parts = text.removeprefix(_CONTROL).split("/")
    if len(parts) != 3 or not all(part.strip() for part in parts) or not _SCHEMA.fullmatch(parts[2]):
        raise InvalidArgument(f"ledger is {redacted(text)!r}; write control-table:conn_id/warehouse_id/catalog.schema")
    return ControlTableAddress(*parts)
