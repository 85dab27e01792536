"""From one HTTP answer to JSON or to one of our errors: the only place that knows both sides.

Databricks answers errors as `{"error_code": ..., "message": ...}`; gateways before it answer HTML. Nothing that
was sent in a header appears in a message: the caller passes those values as `secrets`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
# A dead personal access token is answered 403, with this text and no code of its own.
_DEAD_TOKEN = re.compile(r"\binvalid access token\b|\btoken (is|has) expired\b", re.IGNORECASE)
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
    code, message, ours = _error_parts(answer, text)
    raise _error(answer, code, scrub(message, secrets), now, from_databricks=ours)


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
    until, since = _http_date(value), _http_date(headers.get("date", "")) or now
    if until is None:
        return None
    return min(max((until - since).total_seconds(), 0.0), RETRY_AFTER_CAP_SECONDS)


def _http_date(value: str) -> datetime | None:
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


def _error_parts(answer: Answer, text: str) -> tuple[str | None, str, bool]:
    """Code, message, and whether the body has the form that Databricks gives its errors."""
    if 300 <= answer.status < 400:
        return None, f"a redirect to {answer.headers.get('location', 'nowhere')[:200]}", False
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        return None, f"{_kind(answer)} instead of JSON", False
    if isinstance(nested := parsed.get("error"), dict):
        # the Delta API of Unity Catalog: {"error": {"message", "type", "code"}}, the code being the HTTP status
        parsed = {"error_code": nested.get("type"), "message": nested.get("message")}
    code = parsed.get("error_code") or parsed.get("errorCode")
    form = code is not None or "message" in parsed
    return (None if code is None else str(code)), str(parsed.get("message") or "no message"), form


def _error(answer: Answer, code: str | None, message: str, now: datetime, *, from_databricks: bool) -> BridgeError:
    status = answer.status
    said = f"{answer.where}: HTTP {status}{f' {code}' if code else ''}: {message}"
    if status == 429:
        return Throttled(said, retry_after=retry_after(answer.headers, now))
    if status >= 500 or status in _RETRYABLE_4XX or code in _RETRYABLE_CODES:
        return Overloaded(said, retry_after=retry_after(answer.headers, now))
    kind = _kind_of_refusal(status, message)
    if kind is NotFound and (not from_databricks or code == _NO_SUCH_API):
        # a gateway's 404 must not pass for "this run is gone"
        kind = BadAnswer
    advice = _WHAT_TO_DO.get(kind)
    return kind(f"{said}; {advice}" if advice else said, status=status, error_code=code)


def _kind_of_refusal(status: int, message: str) -> type[WorkspaceError]:
    if status == 401 or (status == 403 and _DEAD_TOKEN.search(message)):
        return NotAuthenticated
    if status == 403:
        return NotPermitted
    if status == 404 or (status == 400 and _DOES_NOT_EXIST.search(message)):
        return NotFound
    if 300 <= status < 400:
        return BadAnswer
    return WorkspaceError
