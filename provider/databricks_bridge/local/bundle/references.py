"""`${...}` in a bundle, which the CLI resolves; `{{...}}` is the workspace's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from databricks_bridge.local.bundle.values import Value

_NAME = r"[a-zA-Z][a-zA-Z0-9_-]*"
REFERENCE = re.compile(r"\$\{(" + _NAME + r"(?:\." + _NAME + r"(?:\[[0-9]+\])*)*)\}")
JOB_ID = re.compile(r"\$\{resources\.jobs\.(" + _NAME + r")\.id\}")
_STEP = re.compile(r"[^.\[\]]+")
Lookup = Callable[[Value, str], Value | None]


def resolved(value: Value, lookup: Lookup, above: tuple[str, ...] = ()) -> Value:
    """`value` with its references replaced.

    :param lookup: what a reference stands for; None leaves it as it is. Raises FileError for what is unknown.
    """
    if isinstance(value.data, dict):
        return value.like({name: resolved(inner, lookup, above) for name, inner in value.data.items()})
    if isinstance(value.data, list):
        return value.like([resolved(inner, lookup, above) for inner in value.data])
    if not isinstance(value.data, str) or "${" not in value.data:
        return value
    whole = REFERENCE.fullmatch(value.data)
    if whole:
        found = _found(value, whole[1], lookup, above)
        return value if found is None else value.like(found.data)

    def inline(reference: re.Match[str]) -> str:
        found = _found(value, reference[1], lookup, above)
        if found is None:
            return reference[0]
        if isinstance(found.data, dict | list):
            raise value.error(f"{reference[0]} is a mapping or a list; it can only be the whole value")
        return str(found.data).lower() if isinstance(found.data, bool) else str(found.data)

    return value.like(REFERENCE.sub(inline, value.data))


def _found(value: Value, reference: str, lookup: Lookup, above: tuple[str, ...]) -> Value | None:
    if reference in above:
        raise value.error(f"${{{reference}}} refers to itself, by {' and '.join(above)}")
    found = lookup(value, reference)
    return None if found is None else resolved(found, lookup, (*above, reference))


def at(root: Value, path: str) -> Value | None:
    """What stands at `a.b[0].c`, None where there is nothing."""
    found: Value | None = root
    for step in _STEP.findall(path):
        if found is None:
            return None
        if isinstance(found.data, list):
            found = found.data[int(step)] if step.isdigit() and int(step) < len(found.data) else None
        else:
            found = found.data.get(step) if isinstance(found.data, dict) else None
    return found


def in_order(jobs: Mapping[str, Value]) -> dict[str, Value]:
    """The jobs, each after those whose ids it names. Raises FileError for a circle or a job that is not there."""
    ordered: dict[str, Value] = {}

    def put(key: str, above: tuple[str, ...]) -> None:
        if key in ordered:
            return
        if key in above:
            raise jobs[key].error(f"names its own id, by {' and '.join(above)}")
        for other in JOB_ID.findall(repr(jobs[key].plain())):
            if other not in jobs:
                raise jobs[key].error(f"uses ${{resources.jobs.{other}.id}}, and there is no job {other!r}")
            put(other, (*above, key))
        ordered[key] = jobs[key]

    for key in jobs:
        put(key, ())
    return ordered


def with_job_ids(value: Any, ids: Mapping[str, int]) -> Any:
    """A plain value with the ids of jobs where it names them."""
    if isinstance(value, Mapping):
        return {name: with_job_ids(inner, ids) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_job_ids(inner, ids) for inner in value]
    if not isinstance(value, str):
        return value
    whole = JOB_ID.fullmatch(value)
    return ids[whole[1]] if whole else JOB_ID.sub(lambda found: str(ids[found[1]]), value)
