"""The Airflow keep for those who are no task: over Airflow's REST API, for the console command.

`GET /api/v2/assets` finds the subscription's asset, `/api/v2/assets/{id}/state-store/{key}` holds its record. That path
always goes to Airflow's own database, so where tasks use another state store backend it would show something else: then
this keep refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from databricks_bridge.core.errors import InvalidArgument, LedgerError
from databricks_bridge.core.record import Record, record_from_json
from databricks_bridge.core.urls import without_login
from databricks_bridge.core.watching import WATCH_KEY
from databricks_bridge.ledgers.airflow import KEY, fitting
from databricks_bridge.ledgers.protocol import Entry, follows, lost, own_history

if TYPE_CHECKING:
    import aiohttp

ASSET_PREFIX = "databricks_bridge."
_OWN_BACKENDS = {
    ("state_store", "backend"): ("", "airflow.state.metastore.MetastoreBackend"),
    ("workers", "state_store_backend"): ("",),
}
_ELSEWHERE = "__airflow_state_ref__"
_PAGE = 100
_SECONDS = 30.0


class AirflowApi:
    """One Airflow's public API. Give `token`, or `user` and `password` for `POST /auth/token`. `async with` closes it."""

    def __init__(self, url: str, *, token: str = "", user: str = "", password: str = "") -> None:
        """Nothing is called yet.

        :param url: Airflow's base URL. A user and password in it are the login where none is given, and are shown nowhere.
        :raises InvalidArgument: for what is no URL.
        """
        try:
            bare, url_user, url_password = without_login(url)
        except ValueError as error:
            raise InvalidArgument(f"Airflow's URL is not usable: {error}; write it as https://host:port") from None
        self._url = bare.rstrip("/")
        self._token, self._user, self._password = token, user or url_user, password or url_password
        self._session: aiohttp.ClientSession | None = None

    def __str__(self) -> str:
        return f"Airflow at {self._url}"

    def __repr__(self) -> str:
        return f"AirflowApi({self._url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def call(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, body: Any = None
    ) -> tuple[int, Any]:
        """Status and JSON of one call; statuses from 400 on are the caller's. Raises LedgerError without an answer."""
        if not self._token:
            self._token = await self._log_in()
        return await self._send(method, path, {"Authorization": f"Bearer {self._token}"}, params, body)

    async def _log_in(self) -> str:
        if not (self._user and self._password):
            raise LedgerError(f"no login for Airflow at {self._url}; give a token, or a user and a password")
        login = {"username": self._user, "password": self._password}
        status, answer = await self._send("POST", "/auth/token", {}, None, login)
        if status >= 300 or not isinstance(answer, dict) or "access_token" not in answer:
            raise LedgerError(f"Airflow at {self._url} refuses the login of {self._user!r} (HTTP {status})")
        return str(answer["access_token"])

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str], params: Mapping[str, Any] | None, body: Any
    ) -> tuple[int, Any]:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS), trust_env=True)
        try:
            async with self._session.request(
                method, self._url + path, headers={"Accept": "application/json", **headers}, params=params, json=body
            ) as answer:
                content = await answer.read()
                return answer.status, json.loads(content) if content.strip() else None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = (
                "nothing listens there" if isinstance(error, aiohttp.ClientConnectorError) else type(error).__name__
            )
            raise LedgerError(f"Airflow at {self._url} does not answer {method} {path}: {reason}") from error
        except ValueError as error:
            raise LedgerError(
                f"{method} {path} of Airflow at {self._url} answered no JSON; is it Airflow 3?"
            ) from error

    async def variable(self, name: str) -> str | None:
        """The value of an Airflow Variable, None where there is none. Raises LedgerError."""
        status, answer = await self.call("GET", f"/api/v2/variables/{quote(name, safe='')}")
        if status == 404:
            return None
        if status != 200 or not isinstance(answer, dict):
            raise self.refused(f"show the Variable {name}", status, answer)
        return str(answer.get("value"))

    def refused(self, act: str, status: int, answer: Any) -> LedgerError:
        """The error for an answer that is a no."""
        detail = answer.get("detail") if isinstance(answer, dict) else None
        return LedgerError(f"Airflow at {self._url} does not {act} (HTTP {status}: {detail or 'no detail'})")

    async def backend_is_known(self) -> bool:
        """Whether Airflow shows that it keeps state in its own database; False where it shows no configuration.

        Raises LedgerError where another backend is configured.
        """
        known = True
        for (section, option), own in _OWN_BACKENDS.items():
            status, answer = await self.call("GET", f"/api/v2/config/section/{section}/option/{option}")
            if status == 403:
                known = False
            elif status == 200:
                value = answer["sections"][0]["options"][0]["value"]
                if value not in own:
                    raise LedgerError(
                        f"Airflow at {self._url} has [{section}] {option} = {value}: records are kept there, not in its "
                        "database, and its API does not show them; use an object-store ledger, or work from a task"
                    )
            elif status != 404:
                raise self.refused(f"show [{section}] {option}", status, answer)
        return known


class AirflowRestKeep:
    """All subscriptions whose asset this Airflow knows."""

    def __init__(self, api: AirflowApi) -> None:
        self._api = api
        self._known_backend: bool | None = None

    def ledger(self, subscription: str) -> AirflowRestLedger:
        return AirflowRestLedger(self, subscription)

    async def names(self) -> list[str]:
        found = [name for name in await self._assets(ASSET_PREFIX) if name.startswith(ASSET_PREFIX)]
        names = sorted(name.removeprefix(ASSET_PREFIX) for name in found)
        return [name for name in names if await self.ledger(name).read() is not None]

    async def watch_notes(self) -> dict[str, object]:
        """What the watcher of each subscription has kept of itself (`core.watching`), also of one without a record."""
        notes: dict[str, object] = {}
        for name, asset_id in sorted((await self._assets(ASSET_PREFIX)).items()):
            path = f"/api/v2/assets/{asset_id}/state-store/{quote(WATCH_KEY, safe='')}"
            status, answer = await self._api.call("GET", path)
            if name.startswith(ASSET_PREFIX) and status == 200 and isinstance(answer, dict):
                notes[name.removeprefix(ASSET_PREFIX)] = answer.get("value")
        return notes

    async def asset_id(self, subscription: str) -> int:
        """Raises LedgerError when Airflow knows no such asset."""
        name = ASSET_PREFIX + subscription
        found = await self._assets(name)
        if name not in found:
            raise LedgerError(
                f"{self._api} knows no subscription {subscription!r}: a DAG file that uses it has to be parsed first, and be "
                "free of import errors"
            )
        return found[name]

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return await self._api.call(method, path, body=body)

    async def backend_is_known(self) -> bool:
        """See `AirflowApi.backend_is_known`; asked once."""
        if self._known_backend is None:
            self._known_backend = await self._api.backend_is_known()
        return self._known_backend

    def refused(self, act: str, status: int, answer: Any) -> LedgerError:
        return self._api.refused(act, status, answer)

    async def _assets(self, pattern: str) -> dict[str, int]:
        found: dict[str, int] = {}
        offset = 0
        while True:
            params = {"name_pattern": pattern, "limit": _PAGE, "offset": offset, "order_by": "id"}
            status, answer = await self._api.call("GET", "/api/v2/assets", params=params)
            if status != 200:
                raise self._api.refused("list its assets", status, answer)
            found |= {one["name"]: one["id"] for one in answer["assets"]}
            offset += _PAGE
            if offset >= answer["total_entries"]:
                return found


class AirflowRestLedger:
    """One subscription's record. The revision is compared just before each write; there is no compare-and-set."""

    def __init__(self, keep: AirflowRestKeep, subscription: str) -> None:
        self._keep, self._subscription = keep, subscription

    def __repr__(self) -> str:
        return f"AirflowRestLedger({self._subscription!r})"

    async def read(self) -> Record | None:
        await self._keep.backend_is_known()
        status, answer = await self._keep.call("GET", await self._path())
        if status == 404:
            return None
        if status != 200:
            raise self._keep.refused(f"show the record of {self._subscription!r}", status, answer)
        value = answer["value"]
        if isinstance(value, dict) and _ELSEWHERE in value:
            raise LedgerError(
                f"the record of {self._subscription!r} is in another state store backend ([workers] state_store_backend), "
                "which Airflow's API does not show; use an object-store ledger, or work from a task"
            )
        return record_from_json(value)

    async def write(self, record: Record) -> None:
        value = fitting(record)
        stored = await self.read()
        if stored is None and not await self._keep.backend_is_known():
            raise LedgerError(
                f"there is no record of {self._subscription!r} yet, and Airflow shows no configuration, so its state store may "
                "be another one: set [api] expose_config = true"
            )
        if not follows(record, stored):
            raise lost(record)
        status, answer = await self._keep.call("PUT", await self._path(), {"value": value})
        if status >= 300:
            raise self._keep.refused(f"take the record of {self._subscription!r}", status, answer)

    async def history(self, count: int) -> list[Entry]:
        return own_history(await self.read(), count)

    async def _path(self) -> str:
        asset_id = await self._keep.asset_id(self._subscription)
        return f"/api/v2/assets/{asset_id}/state-store/{quote(KEY, safe='')}"
