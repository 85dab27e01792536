"""Dynamic value references, `{{job.id}}` and its siblings, in parameters.

Rules (Databricks docs, "Dynamic value reference"): what is no reference to a known namespace stays literal text; an
invalid name in a known namespace is an error when the job is written; trigger references on a run that no trigger
started are empty text. References to what a local workspace does not have (alerts, backfills)
are refused by name, not passed through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

_REFERENCE = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_BRACKETS = re.compile(r"""\.?\[\s*(["']?)([^\[\]]+?)\1\s*\]""")
_NAMESPACES = ("job", "task", "tasks", "workspace", "input", "backfill")
_NOT_HERE = ("backfill",)
_TIME_ARGUMENTS = (
    "iso_date",
    "iso_datetime",
    "iso_weekday",
    "is_weekday",
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "timestamp_ms",
)
_PLAIN = frozenset(
    {
        "job.id",
        "job.name",
        "job.run_id",
        "job.repair_count",
        "job.trigger.type",
        "job.trigger.file_arrival.location",
        "job.trigger.table_update.updated_tables",
        "task.name",
        "task.run_id",
        "task.execution_count",
        "task.notebook_path",
        "workspace.id",
        "workspace.url",
    }
)
_TASK_FIELDS = frozenset({"run_id", "result_state", "error_code", "execution_count", "notebook_path"})


class UnknownReference(ValueError):
    """A reference that names a known namespace and nothing in it, or something a local workspace does not have."""


def time_values(prefix: str, epoch_ms: int) -> dict[str, str]:
    """What a time reference may ask for, all in UTC: `{prefix}.iso_datetime`, `{prefix}.timestamp_ms` and so on."""
    at = datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)
    values = (
        at.date().isoformat(),
        at.replace(tzinfo=None).isoformat(timespec="microseconds"),
        str(at.isoweekday()),
        str(at.isoweekday() < 6).lower(),
        str(at.year),
        str(at.month),
        str(at.day),
        str(at.hour),
        str(at.minute),
        str(at.second),
        str(epoch_ms),
    )
    return {f"{prefix}.{name}": value for name, value in zip(_TIME_ARGUMENTS, values, strict=True)}


def resolve(text: str, values: Mapping[str, str]) -> str:
    """`text` with each reference of a known namespace replaced by its value; empty text where there is none."""

    def value(match: re.Match[str]) -> str:
        name = _plain_name(match[1])
        return values.get(name, "") if name.partition(".")[0] in _NAMESPACES else match[0]

    return _REFERENCE.sub(value, text)


def resolve_all(parameters: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {name: resolve(text, values) for name, text in parameters.items()}


def check(text: str, *, job_parameters: frozenset[str], task_keys: frozenset[str], iterates: bool = False) -> None:
    """Refuse a reference that can never resolve. Raises UnknownReference with the reference in its message.

    `iterates`: the text belongs to the nested task of a for each task, which has an input.
    """
    for name in _names(text):
        namespace = name.partition(".")[0]
        if namespace in _NOT_HERE or re.fullmatch(r"tasks\.[^.]+\.output\.alert_state", name):
            raise UnknownReference(f"{{{{{name}}}}} is not supported by the local workspace")
        if namespace == "input" and iterates:
            continue
        if namespace in _NAMESPACES and not _known(name, job_parameters, task_keys):
            raise UnknownReference(f"{{{{{name}}}}} is not a dynamic value reference of the namespace {namespace!r}")


def tasks_named(texts: Iterable[str]) -> set[str]:
    """The tasks of whose values one of these texts makes use."""
    names = (name for text in texts if "{{" in text for name in _names(text))
    return {name.split(".")[1] for name in names if name.startswith("tasks.")}


def _known(name: str, job_parameters: frozenset[str], task_keys: frozenset[str]) -> bool:
    if name in _PLAIN:
        return True
    if name.startswith("job.parameters."):
        return name.removeprefix("job.parameters.") in job_parameters
    for prefix in ("job.start_time.", "job.trigger.time."):
        if name.startswith(prefix):
            return name.removeprefix(prefix) in _TIME_ARGUMENTS
    if name.startswith("job.trigger.table_update."):
        parts = name.removeprefix("job.trigger.table_update.").split(".")
        return (len(parts) == 4 and parts[3] == "version") or (
            len(parts) == 5 and parts[3] == "commit_timestamp" and parts[4] in _TIME_ARGUMENTS
        )
    if match := re.fullmatch(r"tasks\.([^.]+)\.(?:values\..+|output\.rows|output\.first_row\..+)", name):
        return match[1] in task_keys
    if name.startswith("tasks."):
        key, _, field = name.removeprefix("tasks.").rpartition(".")
        return key in task_keys and field in _TASK_FIELDS
    return False


def _names(text: str) -> Iterator[str]:
    return (_plain_name(match[1]) for match in _REFERENCE.finditer(text))


def _plain_name(name: str) -> str:
    """A part of a name may stand in backquotes or in brackets: `job.parameters.[input]`."""
    return _BRACKETS.sub(r".\2", name.replace("`", ""))
