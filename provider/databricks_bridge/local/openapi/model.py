"""What is said of one operation, and the words for the schemas of its arguments and answers (OpenAPI 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from databricks_bridge.local.openapi.known import Known

Schema = dict[str, Any]
Example = Callable[[Known], Mapping[str, Any]]
JSON, BYTES, FORM, PAGE, LINES = (
    "application/json",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "text/html",
    "application/x-ndjson",
)
CONTENT = "content"
"""The name under which an example gives a body that is no JSON object."""


@dataclass(frozen=True)
class Operation:
    """One method of one path.

    `query` and `body` are its arguments by name; those of a GET may come as a JSON body too. `required` names those it
    cannot do without. `answer` is the schema of a JSON answer, None where there is no content. `example` gives values of
    arguments by name that work in this workspace; a value of None means that there is nothing to show.
    """

    summary: str
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Mapping[str, Schema] | None = None
    required: tuple[str, ...] = ()
    answer: Schema | None = None
    status: int = 200
    takes: str = JSON
    gives: str = JSON
    example: Example = lambda known: {}
    open: bool = False
    """Whether it is answered without a token."""
    recipient: bool = False
    """Whether its token is one of a recipient of a share, and its errors those of Delta Sharing."""
    path: Mapping[str, Schema] = field(default_factory=dict)
    """Parts of the path, where they are not any text."""
    tag: str = ""


Operations = dict[tuple[str, str], Operation]
"""By method and path; the path as its route has it."""


def tagged(tag: str, operations: Operations) -> Operations:
    """The operations with the name of their family."""
    return {place: replace(operation, tag=tag) for place, operation in operations.items()}


def under(prefixes: tuple[str, ...], operations: Operations) -> Operations:
    """Operations below `/`, served under each of the prefixes."""
    return {
        (method, f"{prefix}/{path}".rstrip("/")): operation
        for prefix in prefixes
        for (method, path), operation in operations.items()
    }


def text(**more: Any) -> Schema:
    return {"type": "string", **more}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def whole(least: int = 0, most: int = 2**63 - 1) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def number(least: float = 0) -> Schema:
    return {"type": "number", "minimum": least}


def flag() -> Schema:
    return {"type": "boolean"}


def listing(items: Schema, least: int = 0, most: int | None = None) -> Schema:
    return {"type": "array", "items": items, "minItems": least, **({} if most is None else {"maxItems": most})}


def texts_by_name() -> Schema:
    return {"type": "object", "additionalProperties": {"type": "string"}}


def anything() -> Schema:
    """An object that is kept as it is given."""
    return {"type": "object"}


def fields(*required: str, **properties: Schema) -> Schema:
    """An object; others than these may be in it."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def ref(name: str) -> Schema:
    """A schema of `components`."""
    return {"$ref": f"#/components/schemas/{name}"}
