"""One call to one workspace: authorisation, rate, tries, pauses. The seam between our client and aiohttp."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import aiohttp
from tenacity import AsyncRetrying, RetryCallState, RetryError, retry_if_exception_type, retry_never
from yarl import URL

from databricks_bridge import __version__
from databricks_bridge.core.errors import BadAnswer, InvalidArgument, NotAuthenticated, Throttled, Unavailable
from databricks_bridge.core.urls import redacted
from databricks_bridge.workspace import answers
from databricks_bridge.workspace.line import Line, Pacing, leave_line, take_line

Headers = dict[str, str]

USER_AGENT = f"databricks-bridge/{__version__}"
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_ORG_ID = "x-databricks-org-id"
_RAW = "content"

UNTRUSTED = (
    "the server's certificate is not trusted ({reason}); name the file of its authority in the environment of this process: "
    "SSL_CERT_FILE, and REQUESTS_CA_BUNDLE for what uses requests"
)

# What aiohttp raises, and what we call it; the first row that fits counts. A text of None means: the exception's own.
TRANSLATION: tuple[tuple[type[BaseException], type[Exception], str | None], ...] = (
    (aiohttp.InvalidURL, InvalidArgument, "the host is not a URL; check the Airflow connection"),
    # not a passing fault: asking again shows the same certificate
    (aiohttp.ClientConnectorCertificateError, BadAnswer, UNTRUSTED),
    (TimeoutError, Unavailable, "no answer in time"),
    (aiohttp.ClientPayloadError, Unavailable, "the answer was cut short"),
    (aiohttp.ServerDisconnectedError, Unavailable, "the server closed the connection without an answer"),
    # its text would show the URL of a proxy, with its password
    (aiohttp.ClientResponseError, Unavailable, "the answer is not HTTP that we can read"),
    (aiohttp.ClientError, Unavailable, None),
    (OSError, Unavailable, None),
)


class Transport:
    """Sends one request until it is answered or the budget is spent. See `Workspace` for the arguments."""

    def __init__(
        self,
        host: str,
        authorize: Callable[[], Awaitable[Headers]],
        *,
        reauthorize: Callable[[], Awaitable[None]] | None,
        session: aiohttp.ClientSession | None,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
        clock: Callable[[], float],
        now: Callable[[], datetime],
        budget_seconds: float,
        try_seconds: float,
        proxy: str | None,
    ) -> None:
        if not host.startswith(("https://", "http://")):
            raise InvalidArgument(f"the host {redacted(host)!r} is not a URL; write it as https://name")
        if "@" in host:
            raise InvalidArgument(
                f"the host {redacted(host)!r} has a user or password in it; the credentials of a workspace are fields of the "
                "connection, or DATABRICKS_TOKEN"
            )
        self.host = host.rstrip("/")
        self.org_id: str | None = None
        self._told: tuple[datetime, float] | None = None
        self._authorize, self._reauthorize = authorize, reauthorize
        self._session = session
        self._sleep, self._random, self._clock, self._now = sleep, random, clock, now
        self._pacing = Pacing(clock, sleep, random)
        self._budget, self._try_seconds = budget_seconds, try_seconds
        self._proxy = proxy
        self._line: Line | None = None
        self._closed = False
        self._renewal = asyncio.Lock()
        self._renewals = 0

    async def close(self) -> None:
        """Leaves the shared session; the last client of the workspace in this event loop closes it. Nothing is sent after."""
        self._closed = True
        if self._line is not None:
            line, self._line = self._line, None
            await leave_line(self.host, line)

    def service_now(self) -> datetime | None:
        """The time by the clock of the service, moved on since its last answer by our monotonic clock."""
        if self._told is None:
            return None
        date, at = self._told
        return date + timedelta(seconds=self._clock() - at)

    def session(self) -> aiohttp.ClientSession:
        """The session that was given, else the one that all clients of the workspace share."""
        return self._session or self._taken().session()

    def slots_of(self, store: str) -> asyncio.Semaphore:
        """See `Line.slots_of`."""
        return self._taken().slots_of(store)

    def _taken(self) -> Line:
        if self._closed:
            # whoever is late must not open a session that nobody closes
            raise Unavailable(f"the client of {self.host} was closed; open another one")
        if self._line is None:
            self._line = take_line(self.host)
        return self._line

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        safe: bool = True,
    ) -> dict[str, Any]:
        """The JSON answer of one call. Without `safe` it is sent once, or twice when the first try was a 401."""
        return (await self._answered(method, path, params, body, safe, may_be_empty=method != "GET"))[0]

    async def headers(self, path: str, *, params: Mapping[str, Any] | None = None) -> Mapping[str, str]:
        """The headers of a GET that was answered well, their names in lower case."""
        return (await self._answered("GET", path, params, None, safe=True, may_be_empty=True))[1]

    async def content(self, path: str) -> tuple[bytes, Mapping[str, str]]:
        """The body of a GET that was answered well, as it came, and its headers, their names in lower case."""
        answer, headers = await self._answered("GET", path, None, None, safe=True, raw=True)
        return bytes(answer[_RAW]), headers

    async def _answered(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        safe: bool,
        raw: bool = False,
        may_be_empty: bool = False,
    ) -> tuple[dict[str, Any], Mapping[str, str]]:
        url = URL(self.host + path, encoded=True).update_query(_query(params))
        started = self._clock()
        renewed = False

        async def one() -> tuple[dict[str, Any], Mapping[str, str]]:
            nonlocal renewed
            renewals = self._renewals
            try:
                return await self._once(method, path, url, body, started, raw, may_be_empty)
            except NotAuthenticated:
                if renewed or self._reauthorize is None:
                    raise
            renewed = True
            await self._renew(renewals)
            return await self._once(method, path, url, body, started, raw, may_be_empty)

        tries = AsyncRetrying(
            sleep=self._sleep,
            wait=self._pause,
            stop=lambda state: self._clock() - started + state.upcoming_sleep > self._budget,
            retry=retry_if_exception_type(Unavailable) if safe else retry_never,
        )
        try:
            return await tries(one)
        except RetryError as spent:
            raise self._gave_up(spent.last_attempt.exception(), spent.last_attempt.attempt_number, started) from None

    def _gave_up(self, last: BaseException | None, tries: int, started: float) -> Unavailable:
        text = f"{last}; gave up after {tries} {'try' if tries == 1 else 'tries'} in {self._clock() - started:.0f} s"
        pause = getattr(last, "retry_after", None)
        if isinstance(last, Throttled):
            return Throttled(f"{text} (it asks for a pause of {pause:g} s)" if pause else text, retry_after=pause)
        return Unavailable(text)

    def _pause(self, state: RetryCallState) -> float:
        """Seconds before the next try: doubling, half of it random; never less than the service asked for."""
        doubled: float = min(_FIRST_PAUSE_SECONDS * 2 ** (state.attempt_number - 1), _LONGEST_PAUSE_SECONDS)
        backoff: float = doubled * (0.5 + self._random() / 2)
        error = state.outcome.exception() if state.outcome else None
        asked: float | None = getattr(error, "retry_after", None)
        if asked is None:
            return backoff
        # a crowd that was told the same pause must not come back in one moment
        return max(backoff, asked + self._random() * max(1.0, asked / 10))

    async def _renew(self, renewals: int) -> None:
        """Rebuilds the credentials, once for all calls that were refused with the same ones."""
        async with self._renewal:
            if renewals == self._renewals and self._reauthorize is not None:
                await self._reauthorize()
                self._renewals += 1

    def _seconds(self, started: float) -> float:
        """What one try may take of the budget that is left."""
        return min(self._try_seconds, max(self._budget - (self._clock() - started), 1.0))

    async def _once(
        self,
        method: str,
        path: str,
        url: URL,
        body: Mapping[str, Any] | None,
        started: float,
        raw: bool,
        may_be_empty: bool,
    ) -> tuple[dict[str, Any], Mapping[str, str]]:
        where = f"{method} {path} at {self.host}"
        line = self._taken()
        seconds = self._seconds(started)
        try:
            async with asyncio.timeout(seconds):
                credentials = await self._authorize()
        except TimeoutError as error:
            raise Unavailable(f"{where}: no credentials in {seconds:.0f} s") from error
        async with line.turn(method, path, self._pacing, started + self._budget):
            seconds = self._seconds(started)
            try:
                async with self.session().request(
                    method,
                    url,
                    json=body,
                    headers={"Accept": "application/json", **credentials, "User-Agent": USER_AGENT},
                    timeout=aiohttp.ClientTimeout(total=seconds),
                    allow_redirects=False,
                    proxy=self._proxy,
                ) as response:
                    content = await response.read()
                    headers = {name.lower(): value for name, value in response.headers.items()}
                    status = response.status
            except tuple(row[0] for row in TRANSLATION) as error:
                raise translate(where, error) from error
            if (org_id := headers.get(_ORG_ID, "0")) != "0":
                self.org_id = org_id
            if (date := answers.http_date(headers.get("date", ""))) is not None:
                self._told = date, self._clock()
            secrets = [part for value in credentials.values() for part in (value, value.split(" ", 1)[-1])]
            answer = answers.Answer(where, status, headers, content)
            if raw and 200 <= status < 300:
                return {_RAW: content}, headers
            return answers.read(answer, now=self._now(), secrets=secrets, may_be_empty=may_be_empty), headers


def translate(where: str, error: BaseException) -> Exception:
    """Our error for one of aiohttp's, by the table."""
    for theirs, ours, text in TRANSLATION:
        if isinstance(error, theirs):
            said = f"{type(error).__name__}: {error}" if text is None else text.format(reason=certificate_reason(error))
            return ours(f"{where}: {said}")
    raise TypeError(f"{type(error).__name__} has no row in TRANSLATION") from error


def certificate_reason(error: BaseException) -> str:
    """Why a certificate is not trusted, as TLS says it, such as "certificate has expired"."""
    said = str(error)
    found = re.search(r"certificate verify failed: (.+?)(?: \(_ssl|\]|$)", said)
    return found[1] if found else said


def _query(params: Mapping[str, Any] | None) -> dict[str, str]:
    """Query values as Databricks writes them: booleans in lower case, None left out."""
    found = {name: value for name, value in (params or {}).items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}
