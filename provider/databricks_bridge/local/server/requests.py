"""Reading requests: the query and a JSON body are one set of arguments, checked where they are used.

The official Airflow hook sends a GET's arguments as a JSON body and no query; the official SDK sends a query, with
booleans as `true` and `false`. Both are accepted everywhere, as Databricks does.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.request_fields.check import WrongType, checked
from databricks_bridge.local.request_fields.declaration import declaration
from databricks_bridge.local.server.errors import InvalidParameterValue, MalformedRequest
from databricks_bridge.local.server.responses import JSONResponse

LARGEST_BODY_BYTES = 32 * 1024 * 1024
"""More than the largest request that Databricks documents: a SQL statement of 16 MiB, an import of 10 MB in base64."""
JOBS_VERSIONS = ("2.2", "2.1", "2.0")
"""The newest first, which is called most: routes are tried in order."""


_WHOLE = re.compile(r"-?[0-9]+")
_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding"})
"""A request without either has no body (RFC 9112, section 6.3), and need not be waited for."""


class Arguments:
    """The arguments of one request. Every getter raises InvalidParameterValue with the argument's name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number, also as text. Without a default it is required."""
        found = self.optional_integer(name)
        if found is not None:
            return found
        if default is None:
            raise InvalidParameterValue(f"Missing required field: {name}")
        return default

    def optional_integer(self, name: str) -> int | None:
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InvalidParameterValue(f"{name} must be a whole number")
        if isinstance(value, str) and not _WHOLE.fullmatch(value):
            raise InvalidParameterValue(f"{name} must be a whole number, not {value!r}")
        # A text of thousands of digits is more than int() takes.
        if len(str(value)) > 20 or abs(int(value)) >= 2**63:
            raise InvalidParameterValue(f"{name} is out of range")
        return int(value)

    def boolean(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name, default)
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise InvalidParameterValue(f"{name} must be true or false, not {value!r}")

    def text(self, name: str) -> str | None:
        """Text that is not empty, or None."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise InvalidParameterValue(f"{name} must be text")
        return value or None

    def mapping(self, name: str) -> dict[str, Any]:
        """An object; an empty one where it is left out."""
        value = self.values.get(name) or {}
        if not isinstance(value, dict):
            raise InvalidParameterValue(f"{name} must be an object")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts; an empty one where it is left out."""
        value = self.values.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InvalidParameterValue(f"{name} must be a list of strings")
        return value

    def text_map(self, name: str) -> dict[str, str]:
        """An object from text to text."""
        value = self.mapping(name)
        if not all(isinstance(item, str) for item in value.values()):
            raise InvalidParameterValue(f"{name} must map strings to strings")
        return value


Handler = Callable[[Workspace, Arguments], Mapping[str, Any]]


async def read(request: Request, call: str | None = None) -> Arguments:
    """The query and the body as one.

    :param call: one of the declared calls, against which the body is checked; what is not declared is left out then.
    :raises MalformedRequest: for a body that is not a JSON object or has a field of a wrong type.
    """
    values: dict[str, Any] = dict(request.query_params)
    body = await request.body() if _BODY_HEADERS & {name for name, _ in request.scope["headers"]} else b""
    if body:
        values.update(_typed(call, _object(body)))
    return Arguments(values)


def _typed(call: str | None, body: dict[str, Any]) -> dict[str, Any]:
    if call is None or call not in declaration().calls:
        return body
    try:
        return checked(call, body)
    except WrongType as error:
        raise MalformedRequest(f"Could not parse request object: {error}") from None


def _object(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode()
        parsed = json.loads(text, parse_constant=_no_number, parse_float=_number)
        if "\\ud" in text.lower():
            json.dumps(parsed, ensure_ascii=False).encode()  # half a surrogate pair is text that nothing can keep
    except (ValueError, RecursionError):
        raise MalformedRequest("Could not parse request object: the body is not JSON") from None
    if not isinstance(parsed, dict):
        raise MalformedRequest("Could not parse request object: the body is not a JSON object")
    return parsed


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def api_router(workspace: Workspace, routes: Mapping[tuple[str, str], Handler], versions: Iterable[str]) -> APIRouter:
    """A router that serves `{(method, path below /api/<version>/): handler}` under each version.

    Handlers are plain functions that run on the event loop's thread, so none of them may block.
    """
    router = APIRouter()
    for version in versions:
        for (method, path), handler in routes.items():
            router.add_route(
                f"/api/{version}/{path}", _endpoint(workspace, handler, f"{method} {path}"), methods=[method]
            )
    return router


def _endpoint(workspace: Workspace, handler: Handler, call: str) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> JSONResponse:
        return JSONResponse(handler(workspace, await read(request, call)))

    return endpoint
