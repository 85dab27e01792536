"""What a command works with: the ledgers, the workspace, the clock, and the person who is asked before it writes."""

from __future__ import annotations

import getpass
import os
import sys
import uuid
from argparse import Namespace
from collections.abc import Sequence
from configparser import ConfigParser, Error
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from databricks_bridge.cli.running import NotConfirmed
from databricks_bridge.core.errors import InvalidArgument, LedgerError
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Record
from databricks_bridge.core.urls import redacted
from databricks_bridge.ledgers.address import Address, AirflowAddress, open_keep, parse_address
from databricks_bridge.ledgers.protocol import Keep, Ledger
from databricks_bridge.workspace.client import Workspace

if TYPE_CHECKING:
    from databricks_bridge.ledgers.airflow_rest import AirflowApi

_ENV = "DATABRICKS_BRIDGE_AIRFLOW_"


class Session:
    """One run of the command. Secrets come from the environment alone: a command line is seen by every process."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self._stack = AsyncExitStack()
        self._keeps: dict[str, Keep] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def address(self) -> Address:
        """The ledger that the command is about."""
        return parse_address(self.options.ledger or _configured() or "airflow")

    def keep(self, address: Address) -> Keep:
        """The keep at this address, opened once."""
        key = str(address)
        if key not in self._keeps:
            self._keeps[key] = open_keep(address, airflow=self._airflow, workspace=self._open)
        return self._keeps[key]

    def ledger(self) -> Ledger:
        """The ledger of the subscription on the command line."""
        return self.keep(self.address).ledger(self.options.subscription)

    async def record(self) -> Record:
        """Its record. Raises LedgerError when there is none."""
        record = await self.ledger().read()
        if record is None:
            raise LedgerError(
                f"the ledger {self.address} has no record of subscription {self.options.subscription!r}; "
                "databricks-bridge subscription list shows which it has"
            )
        return record

    async def workspace(self) -> Workspace | None:
        """The workspace of --databricks-conn-id, else of DATABRICKS_HOST and DATABRICKS_TOKEN; None without either."""
        if self.options.databricks_conn_id:
            return await self._open(self.options.databricks_conn_id)
        host, token = os.environ.get("DATABRICKS_HOST"), os.environ.get("DATABRICKS_TOKEN")
        if not (host and token):
            return None

        async def authorize() -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        url = host if "://" in host else f"https://{host}"
        return await self._stack.enter_async_context(Workspace(url, authorize))

    def reason(self) -> Reason:
        """Who does it and why."""
        return Reason(self.options.by or getpass.getuser(), self.options.why)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def new_epoch(self) -> str:
        return str(uuid.uuid4())

    def confirm(self, plan: Sequence[str]) -> None:
        """Show what will be written, and ask, unless --yes was given. Raises NotConfirmed."""
        if self.options.yes:
            return
        print("\n  ".join(["to be written:", *plan]), file=sys.stderr)
        if not sys.stdin.isatty():
            raise NotConfirmed("nothing was written: there is nobody to ask; add --yes")
        print("Write this? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise NotConfirmed("nothing was written")

    def airflow(self) -> AirflowApi:
        """Airflow's REST API. Raises InvalidArgument where its URL or a login is missing."""
        from databricks_bridge.ledgers.airflow_rest import AirflowApi

        url = self.options.airflow_url or os.environ.get(_ENV + "URL")
        if not url:
            raise InvalidArgument(f"this needs Airflow's base URL: give --airflow-url or {_ENV}URL")
        token, password = _secret("TOKEN"), _secret("PASSWORD")
        user = self.options.airflow_user or os.environ.get(_ENV + "USER", "")
        if not (token or (user and password) or "@" in url):
            raise InvalidArgument(
                f"no login for Airflow at {redacted(url)}: set {_ENV}TOKEN, or {_ENV}PASSWORD with --airflow-user or {_ENV}USER "
                "(_TOKEN_FILE and _PASSWORD_FILE name files that hold them)"
            )
        api = AirflowApi(url, token=token, user=user, password=password)
        self._stack.push_async_exit(api)
        return api

    def airflow_keep(self) -> Keep | None:
        """The keep of the Airflow that is given, whatever the ledger is; None where none is."""
        if isinstance(self.address, AirflowAddress):
            return self.keep(self.address)
        try:
            return self._airflow()
        except InvalidArgument:
            return None

    def _airflow(self) -> Keep:
        from databricks_bridge.ledgers.airflow_rest import AirflowRestKeep

        return AirflowRestKeep(self.airflow())

    async def _open(self, databricks_conn_id: str) -> Workspace:
        from databricks_bridge.hooks.databricks import open_workspace

        return await self._stack.enter_async_context(await open_workspace(databricks_conn_id))


def _secret(name: str) -> str:
    """A secret of the environment, or what the file holds that `NAME_FILE` names. Raises InvalidArgument."""
    if given := os.environ.get(_ENV + name):
        return given
    file = os.environ.get(f"{_ENV}{name}_FILE")
    try:
        return Path(file).read_text().strip() if file else ""
    except OSError as error:
        raise InvalidArgument(f"{_ENV}{name}_FILE: {file} cannot be read: {error.strerror}") from error


def _configured() -> str | None:
    """`[databricks_bridge] ledger` of Airflow's configuration, without the seconds that importing Airflow takes."""
    if given := os.environ.get("AIRFLOW__DATABRICKS_BRIDGE__LEDGER"):
        return given
    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow").expanduser()
    file = Path(os.environ.get("AIRFLOW_CONFIG") or home / "airflow.cfg").expanduser()
    config = ConfigParser(interpolation=None, strict=False)
    try:
        config.read(file)
    except (Error, OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{file} cannot be read ({type(error).__name__}); give --ledger") from error
    return config.get("databricks_bridge", "ledger", fallback=None)
