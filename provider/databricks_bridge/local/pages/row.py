"""One row from a form into a Delta table: values by the table's own types, and an append that keeps to its protocol.

It is written with `deltalake`, so it works without Java too. That refuses a table with a feature which it does not write,
checks constraints, and never changes a table's protocol or schema on an append; what it does not check is checked here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.server.unity_catalog_columns import type_text

Field = Mapping[str, Any]
"""A column as the Delta protocol writes it: name, type, nullable, metadata."""
_WHOLE = {"byte": 8, "short": 16, "integer": 32, "long": 64}


class RowRefused(BridgeError):
    """The row cannot be committed; the message says why. Nothing was written."""


def row_of_fields(fields: Sequence[Field], given: Mapping[str, str]) -> dict[str, Any]:
    """A row from one text for each column, at its place; an empty one is null. Raises RowRefused."""
    row = {}
    for position, field in enumerate(fields):
        typed = given.get(str(position), "")
        value: Any = None
        if typed != "":
            value = typed if isinstance(field["type"], str) else _json(typed, str(field["name"]))
        row[str(field["name"])] = _column(field, value)
    return row


def row_of_json(fields: Sequence[Field], source: str) -> dict[str, Any]:
    """A row from a JSON object by column; a column that is left out is null. Raises RowRefused."""
    given = _json(source, "the row")
    if not isinstance(given, dict):
        raise RowRefused('The row has to be a JSON object, such as {"id": 1}.')
    columns = [str(field["name"]) for field in fields]
    if unknown := sorted(given.keys() - set(columns)):
        raise RowRefused(f"The table has no column {', '.join(unknown)}; it has {', '.join(columns)}.")
    return {str(field["name"]): _column(field, given.get(str(field["name"]))) for field in fields}


def append(table: Path, row: Mapping[str, Any]) -> int:
    """Commit one row; the version that it is in. Raises RowRefused."""
    import pyarrow as pa
    from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError

    # Checkpoints and log cleanup are left to the table's own writers.
    alone = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
    try:
        delta = DeltaTable(str(table))
        data = pa.Table.from_pylist([dict(row)], schema=pa.schema(delta.schema().to_arrow()))
        write_deltalake(delta, data, mode="append", post_commithook_properties=alone)
        return int(delta.version())
    except CommitFailedError as error:
        raise RowRefused(
            f"The commit failed: {error}. Where it says that a table feature is not supported, commit from a notebook or "
            "through a SQL warehouse."
        ) from None
    except (DeltaError, pa.ArrowException, OSError, OverflowError, TypeError, ValueError) as error:
        raise RowRefused(f"The row was refused: {error}") from None


def _column(field: Field, value: Any) -> Any:
    name = str(field["name"])
    if value is None:
        if not field["nullable"]:
            raise RowRefused(f"{name} is needed: the column is not nullable.")
        return None
    return _value(field["type"], value, name)


def _value(kind: Any, value: Any, where: str) -> Any:
    """`value`, as JSON or a form has it, as Arrow takes it."""
    if value is None:
        return None
    if isinstance(kind, str):
        return _primitive(kind, value, where)
    if kind["type"] == "array":
        items = _of_type(list, value, kind, where)
        return [_value(kind["elementType"], item, f"{where}[{index}]") for index, item in enumerate(items)]
    entries = _of_type(dict, value, kind, where)
    if kind["type"] == "map":
        return [
            (_value(kind["keyType"], key, where), _value(kind["valueType"], item, f"{where}.{key}"))
            for key, item in entries.items()
        ]
    inside = {str(field["name"]): field for field in kind["fields"]}
    if unknown := sorted(entries.keys() - inside.keys()):
        raise RowRefused(f"{where} has no field {', '.join(unknown)}; it has {', '.join(inside)}.")
    return {name: _column({**field, "name": f"{where}.{name}"}, entries.get(name)) for name, field in inside.items()}


def _primitive(kind: str, value: Any, where: str) -> Any:
    try:
        if kind in _WHOLE:
            return _whole(kind, value)
        if kind in ("double", "float"):
            return float(_not_truth(value))
        if kind.startswith("decimal"):
            return Decimal(str(_not_truth(value)).strip())
        if kind == "boolean":
            return _truth(value)
        if kind == "string" or kind.startswith(("varchar", "char")):
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if kind == "date":
            return date.fromisoformat(str(value).strip())
        if kind in ("timestamp", "timestamp_ntz"):
            at = datetime.fromisoformat(str(value).strip())
            if kind == "timestamp_ntz":
                return at.replace(tzinfo=None)
            return at if at.tzinfo else at.replace(tzinfo=UTC)
        if kind == "binary":
            return base64.b64decode(str(value), validate=True)
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        raise RowRefused(f"{where}: {value!r} is no {type_text(kind)}{_EXAMPLES.get(kind, '')}.") from None
    raise RowRefused(f"{where}: values of the type {type_text(kind)} cannot be committed here.")


_EXAMPLES = {
    "date": "; write 2024-05-01",
    "timestamp": "; write 2024-05-01T12:00:00Z",
    "timestamp_ntz": "; write 2024-05-01T12:00:00",
    "boolean": "; write true or false",
    "binary": "; write it in base64",
}


def _whole(kind: str, value: Any) -> int:
    number = int(value) if isinstance(value, str) else value
    most = 2 ** (_WHOLE[kind] - 1)
    if isinstance(number, bool) or not isinstance(number, int) or not -most <= number < most:
        raise ValueError(kind)
    return number


def _truth(value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in ("true", "false"):
        raise ValueError(value)
    return word == "true"


def _not_truth(value: Any) -> Any:
    if isinstance(value, bool | list | dict):
        raise TypeError(value)
    return value


def _of_type(wanted: type, value: Any, kind: Any, where: str) -> Any:
    if not isinstance(value, wanted):
        shape = "a JSON list" if wanted is list else "a JSON object"
        raise RowRefused(f"{where}: {value!r} is no {type_text(kind)}; write {shape}.")
    return value


def _json(source: str, where: str) -> Any:
    try:
        return json.loads(source, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise RowRefused(f"{where} is not JSON: {source[:200]!r}") from None
