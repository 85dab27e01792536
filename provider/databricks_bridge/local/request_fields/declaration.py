"""The declaration as it is kept.

A type is written as one word: `text`, `integer`, `number`, `boolean`, `any`; `id` is text or a whole number that becomes
text, `scalar` text or a number or flag that becomes text; else the name of an object of `objects` or of an enumeration of
`enums`. `[word]` is a list of it, `{word}` an object whose names are the user's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("fields.json")
SCALARS = frozenset({"text", "integer", "number", "boolean", "id", "scalar", "any"})


@dataclass(frozen=True)
class Declaration:
    """`calls` has the fields of a body by `METHOD path` (the path below `/api/<version>/`), the rest what they refer to."""

    calls: dict[str, dict[str, str]]
    objects: dict[str, dict[str, str]]
    enums: dict[str, list[str]]


@cache
def declaration() -> Declaration:
    """What `fields.json` says."""
    return Declaration(**json.loads(FILE.read_text()))
