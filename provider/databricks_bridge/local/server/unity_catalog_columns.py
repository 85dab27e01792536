"""Columns of a table as Unity Catalog shows them, from the schema in the Delta log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

# Delta's name of a primitive type: (type_text, type_name)
_PRIMITIVES = {
    "string": ("string", "STRING"),
    "long": ("bigint", "LONG"),
    "integer": ("int", "INT"),
    "short": ("smallint", "SHORT"),
    "byte": ("tinyint", "BYTE"),
    "double": ("double", "DOUBLE"),
    "float": ("float", "FLOAT"),
    "boolean": ("boolean", "BOOLEAN"),
    "binary": ("binary", "BINARY"),
    "date": ("date", "DATE"),
    "timestamp": ("timestamp", "TIMESTAMP"),
    "timestamp_ntz": ("timestamp_ntz", "TIMESTAMP_NTZ"),
    "variant": ("variant", "VARIANT"),
}


def columns(schema: Mapping[str, Any], partitions: Sequence[str] = ()) -> list[dict[str, Any]]:
    """`columns` of tables-get for a Delta schema (Delta protocol, "Schema Serialization Format")."""
    return [_column(position, field, partitions) for position, field in enumerate(schema["fields"])]


def _column(position: int, field: Mapping[str, Any], partitions: Sequence[str]) -> dict[str, Any]:
    column = {
        "name": field["name"],
        "position": position,
        "nullable": field["nullable"],
        "type_text": type_text(field["type"]),
        "type_name": _type_name(field["type"]),
        "type_json": json.dumps(field, separators=(",", ":")),
    }
    if comment := field.get("metadata", {}).get("comment"):
        column["comment"] = comment
    if field["name"] in partitions:
        column["partition_index"] = partitions.index(field["name"])
    if column["type_name"] == "DECIMAL":
        precision, scale = field["type"].removeprefix("decimal(").removesuffix(")").split(",")
        column |= {"type_precision": int(precision), "type_scale": int(scale)}
    return column


def type_text(kind: Any) -> str:
    """The SQL spelling: ``type_text({"type": "array", "elementType": "long", ...}) == "array<bigint>"``."""
    if isinstance(kind, str):
        return _PRIMITIVES[kind][0] if kind in _PRIMITIVES else kind
    if kind["type"] == "array":
        return f"array<{type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['keyType'])},{type_text(kind['valueType'])}>"
    return "struct<" + ",".join(f"{field['name']}:{type_text(field['type'])}" for field in kind["fields"]) + ">"


def _type_name(kind: Any) -> str:
    if not isinstance(kind, str):
        return str(kind["type"]).upper()
    return "DECIMAL" if kind.startswith("decimal") else _PRIMITIVES.get(kind, ("", "USER_DEFINED_TYPE"))[1]
