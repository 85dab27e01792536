"""Bodies, checked where they come in: each declared field has its declared type, what is not declared is left out.

As protobuf reads JSON, which is what Databricks does and its Airflow operators rely on: a number may come as text and becomes
a number, a null field is not given, an unknown field is ignored. A flag does not come as text, nor a text as a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from databricks_bridge.local.request_fields.declaration import declaration

_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")
_LARGEST = 2**63 - 1
_DEEPEST = 30
"""Levels of a body. Settings have about ten; a loop's task could hold loops without end."""


class WrongType(ValueError):
    """A field is not of its type. The text names the field by its path."""


def checked(call: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with its declared fields alone, numbers as numbers.

    :param call: ``METHOD path``, one of the calls that are declared.
    :raises WrongType: with the path of the field, what is wanted there and what is there.
    """
    return _object(declaration().calls[call], body, "", 0)


def _object(declared: Mapping[str, str], given: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise WrongType(f"{path} is nested too deep")
    # A task of a kind that nobody knows is told so; without its kind it would be told something else.
    known = {name: value for name, value in given.items() if name in declared}
    kinds = {name: value for name, value in given.items() if name.endswith("_task") and "notebook_task" in declared}
    found = {
        name: value if value is None else _value(declared[name], value, f"{path}.{name}".lstrip("."), depth + 1)
        for name, value in known.items()
    }
    return {**{name: value for name, value in kinds.items() if name not in declared}, **found}


def _value(word: str, value: Any, path: str, depth: int) -> Any:
    if word.startswith("["):
        if not isinstance(value, list):
            raise _wrong(path, "a list", value)
        return [_value(word[1:-1], item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    if word.startswith("{"):
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        return {name: _value(word[1:-1], item, f"{path}.{name}", depth + 1) for name, item in value.items()}
    if word in _SCALARS:
        return _SCALARS[word](value, path)
    if word in declaration().enums:
        return _one_of(declaration().enums[word], value, path)
    if not isinstance(value, dict):
        raise _wrong(path, "an object", value)
    return _object(declaration().objects[word], value, path, depth + 1)


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong(path, "text", value)
    return value


def _id(value: Any, path: str) -> str:
    """Text; a number becomes text, as protobuf writes 64-bit numbers."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value, path)


def _scalar(value: Any, path: str) -> str:
    """Text; a number or a flag becomes text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else _text(value, path)


def _flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(path, "true or false", value)
    return value


def _integer(value: Any, path: str) -> int:
    number = _decimal(value)
    if number is None or number != number.to_integral_value():
        raise _wrong(path, "a whole number", value)
    if abs(number) > _LARGEST:
        raise WrongType(f"{path}: the number is out of range")
    return int(number)


def _float(value: Any, path: str) -> float:
    if _decimal(value) is None or not math.isfinite(float(value)):
        raise _wrong(path, "a number", value)
    return float(value)


def _decimal(value: Any) -> Decimal | None:
    """The number, also as text; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return Decimal(value) if abs(value) < 10**30 else Decimal(10**30)
    if isinstance(value, float):
        return Decimal(value) if math.isfinite(value) else None
    return Decimal(value) if _NUMBER.fullmatch(value) else None


def _any(value: Any, path: str) -> Any:
    return value


def _one_of(words: list[str], value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong(path, f"one of {', '.join(words)}", value)
    if value not in words:
        raise WrongType(f"{path} is {_shown(value)}; it is one of {', '.join(words)}")
    return value


_SCALARS: Mapping[str, Callable[[Any, str], Any]] = {
    "text": _text,
    "id": _id,
    "scalar": _scalar,
    "integer": _integer,
    "number": _float,
    "boolean": _flag,
    "any": _any,
}
_KINDS = {bool: "a flag", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}


def _wrong(path: str, wanted: str, value: Any) -> WrongType:
    return WrongType(f"{path} must be {wanted}, not {_KINDS.get(type(value), 'null')} ({_shown(value)})")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
