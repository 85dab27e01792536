"""One entry of the list of what is not served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

HERE = "the local workspace, which is not Databricks,"


class Area(StrEnum):
    """Where something is asked for; also the name of the table in the documents."""

    API = "api"
    TASK = "tasks"
    SETTING = "settings"
    SQL = "sql"
    AUTOLOADER = "autoloader"
    NOTEBOOK = "notebooks"
    BUNDLE = "bundle"
    CLIENT = "clients"


@dataclass(frozen=True)
class Refusal:
    """One thing that Databricks has and the local workspace refuses.

    `name` is what Databricks calls it, and unique in its area. `words` are in each message that refuses it, word for word.
    `source` says where it is known from that Databricks has it (as in docs/fidelity_api.md: SDK, CLI, DOC, OP), or a
    difference worth a word. `example` is what a test asks for to see the refusal; each area has a form of its own:

    - api: `(method, path)`
    - tasks: the task's own object, such as `{"spark_jar_task": {...}}`
    - settings: `(call, body)`, the name of a Jobs API call and what it is sent
    - sql: a statement; notebooks, autoloader: Python source; bundle: an object of a bundle
    - clients: `(method, path)`
    """

    area: Area
    name: str
    words: str
    source: str = ""
    example: Any = None


def refusals(area: Area, entries: Mapping[str, tuple[str, str, Any]]) -> tuple[Refusal, ...]:
    """Entries of one area, written as `name: (words, source, example)`."""
    return tuple(Refusal(area, name, *rest) for name, rest in entries.items())
