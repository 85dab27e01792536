"""The declared fields as schemas of the API's description."""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.request_fields.declaration import declaration

_SCALARS: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "id": {"type": ["string", "integer"]},
    "scalar": {"type": ["string", "number", "boolean"]},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "any": {},
}


def schema_of(word: str) -> dict[str, Any]:
    """The schema of a declared type; of objects that do not hold themselves.

    :param word: as in `declaration.py`, such as ``jobs.JobEmailNotifications`` or ``[text]``.
    """
    if word.startswith("["):
        return {"type": "array", "items": schema_of(word[1:-1])}
    if word.startswith("{"):
        return {"type": "object", "additionalProperties": schema_of(word[1:-1])}
    if word in _SCALARS:
        return dict(_SCALARS[word])
    if word in declaration().enums:
        return {"type": "string", "enum": declaration().enums[word]}
    fields = declaration().objects[word]
    return {"type": "object", "properties": {name: schema_of(inner) for name, inner in fields.items()}}
