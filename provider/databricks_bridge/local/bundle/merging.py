"""How two parts of a bundle become one, as the Databricks CLI does it.

Mappings are merged, lists are joined, and any other value of the later part stands. In jobs, elements of a list that have one
key are one element then: tasks, job clusters, parameters.
"""

from __future__ import annotations

from databricks_bridge.local.bundle.values import Value

_KEYED = {"tasks": "task_key", "job_clusters": "job_cluster_key", "parameters": "name"}


def merged(base: Value, over: Value) -> Value:
    """`over` on top of `base`. Raises FileError where one is a mapping or a list and the other is not."""
    if over.data is None:
        return base
    if base.data is None:
        return over
    if isinstance(base.data, dict) and isinstance(over.data, dict):
        both = dict(base.data)
        for name, value in over.data.items():
            both[name] = merged(both[name], value) if name in both else value
        return base.like(both)
    if isinstance(base.data, list) and isinstance(over.data, list):
        return over.like([*base.data, *over.data])
    if isinstance(base.data, dict | list) or isinstance(over.data, dict | list):
        raise over.error(f"cannot be merged with what {base.file}:{base.line} says of it: one is a mapping or a list")
    return over


def job_merged(job: Value) -> Value:
    """A job whose elements of one key are one."""
    fields = dict(job.fields())
    for name, key in _KEYED.items():
        if name in fields and isinstance(fields[name].data, list):
            fields[name] = _by_key(fields[name], key)
    return job.like(fields)


def _by_key(elements: Value, key: str) -> Value:
    found: dict[str, Value] = {}
    for number, element in enumerate(elements.items()):
        named = element.get(key)
        name = f"={named.plain()}" if named is not None else f"#{number}"
        found[name] = merged(found[name], element) if name in found else element
    return elements.like(list(found.values()))
