"""Values into and out of a statement: parameters from the API's text, rows as the API's text (format JSON_ARRAY)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_WHOLE = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "LONG", "BYTE", "SHORT")
_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_WHOLE, int),
    "STRING": str,
    "FLOAT": float,
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "NUMERIC": Decimal,
    "BOOLEAN": lambda text: {"true": True, "false": False}[text.lower()],
    "DATE": date.fromisoformat,
    "TIMESTAMP": datetime.fromisoformat,
    "TIMESTAMP_NTZ": datetime.fromisoformat,
}
# Spark's name of a type in a schema: (type_name, type_text) of the API.
_TYPES = {
    "bigint": ("LONG", "BIGINT"),
    "smallint": ("SHORT", "SMALLINT"),
    "tinyint": ("BYTE", "TINYINT"),
    "void": ("NULL", "VOID"),
}
_NESTED = ("array", "map", "struct")
_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSS"


class BadParameter(ValueError):
    """A parameter's value does not fit its type."""


def parameters_of(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Python values by name, for `spark.sql(text, args)`. Raises BadParameter."""
    return {str(one["name"]): _value(one) for one in given}


def _value(one: Mapping[str, Any]) -> Any:
    text, kind = one["value"], str(one["type"])
    if text is None or kind == "VOID":
        return None
    read = _READ.get(kind.partition("(")[0])
    if read is None:
        raise BadParameter(
            f"the parameter {one['name']!r} has the type {kind}, which the local workspace does not know"
        )
    try:
        return read(text)
    except (ArithmeticError, KeyError, ValueError):
        raise BadParameter(f"the parameter {one['name']!r} is {text!r}, which is no {kind}") from None


def shown(frame: Any, row_limit: int | None) -> dict[str, Any]:
    """`columns` as (name, type_name, type_text), `rows` of text or None, and whether the limit `truncated` them."""
    from pyspark.sql import functions

    fields = list(frame.schema.fields)
    columns = [(field.name, *_type(field.dataType.simpleString())) for field in fields]
    if not fields:
        return {"columns": [], "rows": [], "truncated": False}
    # Column names of a result need not be unique, those of a selection must be.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(fields))))
    if row_limit is not None:
        numbered = numbered.limit(row_limit + 1)
    texts = [_text(functions, f"c{number}", field.dataType.simpleString()) for number, field in enumerate(fields)]
    rows = [list(row) for row in numbered.select(*texts).collect()]
    truncated = row_limit is not None and len(rows) > row_limit
    return {"columns": columns, "rows": rows[:row_limit] if truncated else rows, "truncated": truncated}


def _type(simple: str) -> tuple[str, str]:
    base = simple.partition("<")[0].partition("(")[0]
    return _TYPES.get(base, (base.upper(), simple.upper()))


def _text(functions: Any, name: str, simple: str) -> Any:
    column = functions.col(name)
    if simple == "timestamp":
        return functions.date_format(column, f"{_TIMESTAMP}XXX")
    if simple == "timestamp_ntz":
        return functions.date_format(column, _TIMESTAMP)
    if simple == "binary":
        return functions.base64(column)
    if simple.startswith(_NESTED):
        return functions.to_json(column)
    return column.cast("string")
