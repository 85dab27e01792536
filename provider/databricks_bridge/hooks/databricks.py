"""A workspace client from an Airflow connection of the official type `databricks`.

Every way to authenticate that the official hook knows works here, because the hook itself does it. The names
that we use of it are in `OFFICIAL_NAMES`; most are private, so a test compares them with the installed release.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import logging
import re
import sys
from contextlib import suppress
from functools import partial
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow.models import Connection
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    from databricks_bridge.core.errors import BridgeError
    from databricks_bridge.workspace.client import Workspace

OFFICIAL_NAMES = (
    "_a_cache_databricks_conn",
    "_a_get_aad_headers",
    "_a_get_token",
    "_get_aiohttp_kwargs",
    "_get_token",
    "databricks_conn",
    "host",
)

# The official hook says at INFO, once a call, which way it authenticates: far too often at polling rate.
_quiet = logging.getLogger(f"{__name__}.official")
_quiet.setLevel(logging.WARNING)
_CONNECTION_SECONDS, _TOKEN_SECONDS = 60.0, 60.0
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
_AZURE = {"azure_tenant_id", "azure_resource_id", "use_azure_managed_identity", "use_default_azure_credential"}
_TOKEN_IN_TEXT = re.compile(r"(['\"]\w*(?:token|secret|password|assertion)\w*['\"]\s*:\s*)(['\"]).*?\2", re.IGNORECASE)


async def open_workspace(databricks_conn_id: str, *, budget_seconds: float = 120.0) -> Workspace:
    """The workspace of this connection; close it, or use it as `async with await open_workspace(...)`.

    `budget_seconds` bounds each call with all its retries. Works on a triggerer's event loop and inside `asyncio.run` alike. After a refusal the connection is read
    anew, so that a rotated token is seen. Raises InvalidArgument, naming the connection, when it does not
    exist or has no host.
    """
    from databricks_bridge.workspace.client import Workspace

    login = _Login(databricks_conn_id)
    await login.renew()
    try:
        return Workspace(
            login.url,
            login.headers,
            reauthorize=login.renew,
            budget_seconds=budget_seconds,
            proxy=login.proxy,
            on_close=login.close,
        )
    except BaseException:
        await login.close()
        raise


class _Login:
    """The official hook of one connection, kept for its cache of tokens and replaced when it is refused."""

    def __init__(self, databricks_conn_id: str) -> None:
        self._conn_id = databricks_conn_id
        self._hook: DatabricksHook | None = None
        self._retired: DatabricksHook | None = None
        self._turn = asyncio.Lock()
        self.url = ""
        self.proxy: str | None = None

    async def renew(self) -> None:
        """Reads the connection again and forgets every token."""
        import aiohttp
        from airflow.exceptions import AirflowNotFoundException
        from airflow.providers.databricks.hooks.databricks import DatabricksHook

        from databricks_bridge.core.errors import InvalidArgument, Unavailable
        from databricks_bridge.workspace.names import HostResolver
        from databricks_bridge.workspace.sessions import kept

        # one try: the client above retries, and the hook's own pauses would block the event loop for some logins
        hook = DatabricksHook(databricks_conn_id=self._conn_id, retry_limit=1, caller="databricks-bridge")
        hook._log = _quiet
        try:
            async with asyncio.timeout(_CONNECTION_SECONDS):
                await hook._a_cache_databricks_conn()
        except TimeoutError as error:
            raise Unavailable(
                f"Airflow gave no answer for the connection {self._conn_id!r} in {_CONNECTION_SECONDS:g} s; is its secrets "
                "backend reachable?"
            ) from error
        except AirflowNotFoundException as error:
            raise InvalidArgument(
                f"the Airflow connection {self._conn_id!r} does not exist; create it with type databricks, or correct "
                "databricks_conn_id"
            ) from error
        if not hook.host:
            raise InvalidArgument(
                f"the Airflow connection {self._conn_id!r} has no host; write the workspace's URL into it, as in "
                "https://adb-123.4.azuredatabricks.net"
            )
        url = _url(hook)
        if self.url and url != self.url:
            raise InvalidArgument(
                f"the Airflow connection {self._conn_id!r} now names {url}, and this client was opened for {self.url}; "
                "what was open there is not moved: restart the task"
            )
        # as the hook's own __aenter__ does, but for the threads in which names are looked up
        hook._session = kept(aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=HostResolver())))
        # the hook before may still be fetching a token for another call; the one before that is not
        retired, self._retired, self._hook = self._retired, self._hook, hook
        await _close(retired)
        self.url = url
        self.proxy = hook._get_aiohttp_kwargs(url).get("proxy")

    async def headers(self) -> dict[str, str]:
        """The headers for one try. The hook refreshes its tokens two minutes before they expire; all who need one then
        wait for the same.
        """
        import aiohttp
        from airflow.exceptions import AirflowException

        async with self._turn:
            if self._hook is None:
                await self.renew()
            hook = self._hook
            assert hook is not None
            await _ready(hook)
            try:
                headers: dict[str, str] = dict(await hook._a_get_aad_headers())
                token = await _token(hook)
            except (
                *(aiohttp.ClientError, AirflowException, OSError, ValueError, KeyError, ImportError),
                *_azure_errors(),
            ) as error:
                raise self._no_token(hook, error) from None
        return {**headers, "Authorization": f"Bearer {token}" if token else self._basic(hook)}

    async def close(self) -> None:
        """Closes the hooks' own sessions, which they use for token services."""
        hooks, self._hook, self._retired = (self._hook, self._retired), None, None
        for hook in hooks:
            await _close(hook)

    def _no_token(self, hook: DatabricksHook, error: Exception) -> BridgeError:
        from databricks_bridge.core.errors import BadAnswer, NotAuthenticated, Unavailable
        from databricks_bridge.workspace.transport import UNTRUSTED, certificate_reason

        what = f"no token for the Airflow connection {self._conn_id!r}"
        if "certificate verify failed" in str(cause := _cause(error)):
            return BadAnswer(f"{what}: {UNTRUSTED.format(reason=certificate_reason(cause))}")
        kind = NotAuthenticated if _is_refusal(error) else Unavailable
        return kind(f"{what}: {_said(error, hook.databricks_conn)}")

    def _basic(self, hook: Any) -> str:
        from databricks_bridge.core.errors import NotAuthenticated

        conn = hook.databricks_conn
        if not conn.login or not conn.password:
            raise NotAuthenticated(
                f"the Airflow connection {self._conn_id!r} holds no credentials that the databricks connection type "
                "knows; put a token into its password"
            )
        return "Basic " + base64.b64encode(f"{conn.login}:{conn.password}".encode()).decode()


async def _ready(hook: DatabricksHook) -> None:
    """Imports what takes half a second, so that it takes it from no event loop."""
    from databricks_bridge.workspace.threads import in_thread_of

    if _AZURE & hook.databricks_conn.extra_dejson.keys() and "azure.identity.aio" not in sys.modules:
        with suppress(ImportError):  # the hook says what to install
            await in_thread_of("import", partial(importlib.import_module, "azure.identity.aio"), seconds=_TOKEN_SECONDS)


async def _token(hook: DatabricksHook) -> str | None:
    """The hook's token. In a thread where its own asynchronous way would block the event loop and leave a session open
    (DefaultAzureCredential), or takes a package that the provider does not bring (aiofiles, for Kubernetes).
    """
    from databricks_bridge.workspace.threads import in_thread_of

    conn = hook.databricks_conn
    extra = conn.extra_dejson
    if extra.get("use_default_azure_credential") or extra.get("federated_k8s") or conn.login == "federated_k8s":
        owner = f"token of {hook.databricks_conn_id}"
        token: str | None = await in_thread_of(owner, hook._get_token, seconds=_TOKEN_SECONDS, at_once=1)
        return token
    token = await hook._a_get_token()
    return token


def _azure_errors() -> tuple[type[Exception], ...]:
    """The root of what azure-identity raises, which the official hook passes on; nothing where it is not in use."""
    module = sys.modules.get("azure.core.exceptions")
    return (module.AzureError,) if module else ()


def _cause(error: Exception) -> BaseException:
    """The last try's error where the hook has wrapped it into a message of its own."""
    from tenacity import RetryError

    around = error.__context__
    return (around.last_attempt.exception() or error) if isinstance(around, RetryError) else error


def _is_refusal(error: Exception) -> bool:
    """Whether the answer was a no, so that asking again is not known to help."""
    from airflow.exceptions import AirflowException
    from tenacity import RetryError

    if isinstance(error, AirflowException):  # its status_code is 500 whatever has happened
        return not isinstance(error.__context__, RetryError)
    status = getattr(error, "status", None) or getattr(error, "status_code", None)
    # azure-identity hides what the metadata service said behind an error without a status
    status = status or getattr(error.__cause__, "status_code", None)
    if isinstance(status, int):
        return 400 <= status < 500 and status != 429
    if isinstance(error, _azure_errors()):
        return type(error).__name__ == "ClientAuthenticationError" or error.__cause__ is None
    return isinstance(error, (ValueError, KeyError, ImportError)) and not isinstance(error, JSONDecodeError)


def _said(error: Exception, conn: Connection) -> str:
    """The error's words without secrets: they may hold the token service's whole answer, or what was sent to it."""
    import aiohttp

    if isinstance(error, aiohttp.ClientResponseError):
        return f"HTTP {error.status} from the token service"
    # the text of azure-core's errors repeats the whole answer after their message
    text = str(getattr(error, "message", "") or error)
    said = _TOKEN_IN_TEXT.sub(r"\1***", text or type(error).__name__)
    proxies = conn.extra_dejson.get("proxies")
    urls = proxies.values() if isinstance(proxies, dict) else ()
    for secret in (conn.password, conn.extra_dejson.get("token"), *(urlsplit(str(url)).password for url in urls)):
        if secret:
            said = said.replace(str(secret), "***")
    return said


def _url(hook: DatabricksHook) -> str:
    """The workspace's URL.

    The official hook reads the connection's fields `schema` and `port` and drops what a URL in `host` says of them.
    Here a port in `host` counts as well; `http://` in `host` only for this machine, since elsewhere it would send in
    clear what the official hook sends encrypted: say `schema` http to mean it.
    """
    conn = hook.databricks_conn
    written = urlsplit(str(conn.extra_dejson.get("host") or conn.host))
    plain = written.scheme == "http" and hook.host in _THIS_MACHINE
    port = conn.port or (written.port if written.scheme else None)
    host = f"[{hook.host}]" if ":" in str(hook.host) and not str(hook.host).startswith("[") else hook.host
    return f"{conn.schema or ('http' if plain else 'https')}://{host}{f':{port}' if port else ''}"


async def _close(hook: DatabricksHook | None) -> None:
    if hook is not None:
        await hook.__aexit__(None, None, None)
