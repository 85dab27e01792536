"""Page tokens: opaque to clients, a short JSON list to us. And slices of long arrays, a hundred at a time."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from databricks_bridge.local.server.errors import InvalidParameterValue
from databricks_bridge.local.server.requests import Arguments

PAGE = 100
"""Elements of `tasks`, `parameters` and the like in one answer of API 2.2."""


def encode(*values: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def decode(token: str, kind: str, length: int) -> list[Any]:
    """The values after `kind`. Raises InvalidParameterValue for a token that was not given out for this call."""
    try:
        values = json.loads(base64.urlsafe_b64decode(token.encode()))
        if isinstance(values, list) and len(values) == length + 1 and values[0] == kind:
            return values[1:]
    except ValueError:
        pass
    raise InvalidParameterValue(f"Invalid page token: {token}")


def offset_of(given: Arguments, largest: int) -> int:
    """The deprecated `offset`. Raises InvalidParameterValue beyond the cap: only tokens lead further."""
    offset = given.integer("offset", 0)
    if not 0 <= offset <= largest:
        raise InvalidParameterValue(f"offset must be from 0 to {largest}, use page_token beyond; it is {offset}")
    return offset


def start_of(token: str | None, kind: str) -> int:
    return 0 if token is None else int(decode(token, kind, 1)[0])


def next_token(kind: str, start: int, *arrays: Sequence[Any]) -> dict[str, str]:
    """`next_page_token`, when any of the arrays goes on after this page."""
    if any(len(array) > start + PAGE for array in arrays):
        return {"next_page_token": encode(kind, start + PAGE)}
    return {}


def page(array: Sequence[Any], start: int) -> list[Any]:
    return list(array[start : start + PAGE])
