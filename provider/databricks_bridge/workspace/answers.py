"""From one HTTP answer to JSON or to one of our errors: the only place that knows both sides.

Databricks answers errors as `{"error_code": ..., "message": ...}`; gateways before it answer HTML. Nothing that
was sent in a header appears in a message: the caller passes those values as `secrets`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from databricks_bridge.core.errors import (
    BadAnswer,
    BridgeError,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    Throttled,
    Unavailable,
    WorkspaceError,
)

RETRY_AFTER_CAP_SECONDS = 3600.0
_MESSAGE_MAX = 500
_RETRYABLE_4XX = frozenset({408, 425})
_RETRYABLE_CODES = frozenset({"COULD_NOT_ACQUIRE_LOCK"})
_NO_SUCH_API = "ENDPOINT_NOT_FOUND"
_DOES_NOT_EXIST = re.compile(r"\bdoes not exist\b", re.IGNORECASE)
# Databricks has no error code for a token that is dead or dies within seconds: it answers 403, or 400 from the login's own
# library, and only the text says so. A page token that has expired is another thing.
_DEAD_TOKEN = {
    400: re.compile(r"ExpiredJwt|\bJWT (is |has )?expired\b|\b(invalid|expired) access token\b", re.IGNORECASE),
    403: re.compile(
        r"ExpiredJwt|\bJWT (is |has )?expired\b|\b(invalid|expired) (access )?token\b"
        r"|(?<!page )\btoken (is |has )?(expired|expiring|invalid)\b",
        re.IGNORECASE,
    ),
}
# What Unity Catalog says, in the error code or in `details[].reason`, where external data access is off. Answered with any
# of 400, 401 and 403: new credentials change nothing.
_EXTERNAL_ACCESS = re.compile(r"EXTERNAL_(ACCESS|GENERATE|DATA_ACCESS|USE)")
_EXTERNAL_ACCESS_ADVICE = (
    "external data access is needed to read the table's log: a metastore admin enables it on the metastore "
    "(external_access_enabled), and the catalog's owner grants EXTERNAL USE SCHEMA; or read the version another way, with "
    "via='catalog' for a catalog-managed table or via='sql' and a warehouse"
)
_WHAT_TO_DO: dict[type[WorkspaceError], str] = {
    NotAuthenticated: "check the token or service principal of the Airflow connection",
    NotPermitted: "grant the right to the identity of the Airflow connection",
    BadAnswer: "is the host of the Airflow connection a Databricks workspace?",
}


class Overloaded(Unavailable):
    """No usable answer, maybe with a pause that was asked for: 503 carries Retry-After as 429 does."""

    def __init__(self, message: str, *, retry_after: float | None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True)
class _Refusal:
    """The parts of an error's body. `reasons` are the `reason` of its `details`; `known_form`: as Databricks writes errors."""

    code: str | None
    message: str
    known_form: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What came back from one try. `where` is method, path and host, for messages; header names are lower case."""

    where: str
    status: int
    headers: Mapping[str, str]
    body: bytes


def read(answer: Answer, *, now: datetime, secrets: Iterable[str] = (), may_be_empty: bool = False) -> dict[str, Any]:
    """The JSON object of a good answer; raises the error that fits any other. An empty one is `{}` where it may be."""
    text = answer.body.decode("utf-8", "replace")
    if 200 <= answer.status < 300:
        return {} if may_be_empty and not text.strip() else _json_object(answer, text)
    error = _error_parts(answer, text)
    raise _error(answer, replace(error, message=scrub(error.message, secrets)), now)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """`text` without the secrets, in a length fit for a log line."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text if len(text) <= _MESSAGE_MAX else text[:_MESSAGE_MAX] + "…"


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The pause in seconds that the service asks for (RFC 9110, 10.2.3: a number or a date), capped; None without.

    A date is measured from the answer's own `Date`, so that a wrong clock here does no harm.
    """
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return min(float(value), RETRY_AFTER_CAP_SECONDS)
    until, since = http_date(value), http_date(headers.get("date", "")) or now
    if until is None:
        return None
    return min(max((until - since).total_seconds(), 0.0), RETRY_AFTER_CAP_SECONDS)


def http_date(value: str) -> datetime | None:
    """The time in a header such as `Date`; None for what is not one."""
    try:
        parsed = parsedate_to_datetime(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else None


def _json_object(answer: Answer, text: str) -> dict[str, Any]:
    if not text.strip():
        # an empty listing is `{}`: nothing at all must not pass for it
        raise Unavailable(f"{answer.where}: HTTP {answer.status} with nothing where JSON was due")
    try:
        parsed = json.loads(text)
    except ValueError:
        if "json" in answer.headers.get("content-type", ""):
            raise Unavailable(f"{answer.where}: HTTP {answer.status} with JSON that is cut short") from None
        raise BadAnswer(
            f"{answer.where}: HTTP {answer.status} with {_kind(answer)} where JSON was due; is the host a Databricks "
            "workspace, and is there a log-in page or proxy before it?",
            status=answer.status,
        ) from None
    if not isinstance(parsed, dict):
        raise BadAnswer(
            f"{answer.where}: HTTP {answer.status} with a JSON {type(parsed).__name__} where an object was due",
            status=answer.status,
        )
    return parsed


def _kind(answer: Answer) -> str:
    return answer.headers.get("content-type", "an untyped body").split(";")[0]


def _error_parts(answer: Answer, text: str) -> _Refusal:
    if 300 <= answer.status < 400:
        return _Refusal(None, f"a redirect to {answer.headers.get('location', 'nowhere')[:200]}", False)
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        return _Refusal(None, f"{_kind(answer)} instead of JSON", False)
    details = parsed.get("details")
    if isinstance(nested := parsed.get("error"), dict):
        # the Delta API of Unity Catalog: {"error": {"message", "type", "code"}}, the code being the HTTP status
        parsed = {"error_code": nested.get("type"), "message": nested.get("message")}
        details = nested.get("details") or details
    code = parsed.get("error_code") or parsed.get("errorCode")
    form = code is not None or "message" in parsed
    message = str(parsed.get("message") or "no message")
    return _Refusal(None if code is None else str(code), message, form, _reasons(details))


def _reasons(details: Any) -> tuple[str, ...]:
    """The reasons in an error's details (google.rpc.ErrorInfo)."""
    found = details if isinstance(details, list) else []
    return tuple(str(one["reason"]) for one in found if isinstance(one, dict) and one.get("reason"))


def _error(answer: Answer, refusal: _Refusal, now: datetime) -> BridgeError:
    status, code = answer.status, refusal.code
    names = " ".join(name for name in (code, *refusal.reasons) if name)
    said = f"{answer.where}: HTTP {status}{f' {names}' if names else ''}: {refusal.message}"
    if status == 429:
        return Throttled(said, retry_after=retry_after(answer.headers, now))
    if status >= 500 or status in _RETRYABLE_4XX or code in _RETRYABLE_CODES:
        return Overloaded(said, retry_after=retry_after(answer.headers, now))
    if _EXTERNAL_ACCESS.search(names):
        return NotPermitted(f"{said}; {_EXTERNAL_ACCESS_ADVICE}", status=status, error_code=code)
    kind = _kind_of_refusal(status, refusal.message)
    if kind is NotFound and (not refusal.known_form or code == _NO_SUCH_API):
        # a gateway's 404 must not pass for "this run is gone"
        kind = BadAnswer
    advice = _WHAT_TO_DO.get(kind)
    return kind(f"{said}; {advice}" if advice else said, status=status, error_code=code)


def _kind_of_refusal(status: int, message: str) -> type[WorkspaceError]:
    if status == 401 or (status in _DEAD_TOKEN and _DEAD_TOKEN[status].search(message)):
        return NotAuthenticated
    if status == 403:
        return NotPermitted
    if status == 404 or (status == 400 and _DOES_NOT_EXIST.search(message)):
        return NotFound
    if 300 <= status < 400:
        return BadAnswer
    return WorkspaceError
