"""What a trigger gave to the run that it fired, as far as the job maps it into a parameter.

Facts: the API has no field for the tables, versions or location that fired a run. A job gets them by references such as
`{{job.trigger.table_update.updated_tables}}` in its parameters or its tasks'. `runs/get` shows the reference in
`job_parameters[].default` and in the task's settings, and what it became in `job_parameters[].value` and, where asked for
with `include_resolved_values`, in `tasks[].resolved_values`. Whether `value` is always resolved is not documented, so a
text that still holds a reference is never taken for a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from databricks_bridge.core.parameters import of_run

_REFERENCE = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_NAMESPACES = frozenset({"job", "task", "tasks", "workspace", "input", "backfill"})
"""Of references; any other text in double braces is what its author wrote."""
_TRIGGER, _PARAMETER = "job.trigger.", "job.parameters."
_FIRED_BY_NO_TRIGGER = frozenset({"ONE_TIME", "RUN_JOB_TASK"})

_MAPPINGS = {
    "FILE_ARRIVAL": {"file_arrival_location": "job.trigger.file_arrival.location"},
    "TABLE": {
        "updated_tables": "job.trigger.table_update.updated_tables",
        "version": "job.trigger.table_update.<catalog.schema.table>.version",
    },
    "PERIODIC": {"trigger_time": "job.trigger.time.iso_datetime"},
}
_ANY_KIND = {"trigger_type": "job.trigger.type"}


@dataclass(frozen=True)
class Given:
    """`job_parameters` as the run has them, None for one whose reference is not resolved; `values` of the trigger, by the
    names of `docs/reference.md`; `mapped` is whether the job maps anything of its trigger's.
    """

    job_parameters: dict[str, str | None]
    values: dict[str, Any]
    mapped: bool


def given_to(run: Mapping[str, Any]) -> Given:
    """Read it from an answer of `runs/get` or, without the tasks' part, `runs/list`."""
    parameters = of_run(run)
    templates = {
        one["name"]: one["default"]
        for one in run.get("job_parameters") or []
        if "name" in one and isinstance(one.get("default"), str)
    }
    texts = [(templates.get(name, ""), value) for name, value in parameters.items()]
    resolved: dict[str, str | None] = {name: None if is_reference(text) else text for name, text in parameters.items()}
    for key, template, text in _of_tasks(run):
        name = _only_parameter(template) if template is not None else key
        if name in resolved and resolved[name] is None and not is_reference(text):
            resolved[name] = text
        texts.append((_expanded(templates.get(key or "", "") if template is None else template, templates), text))
    if run.get("trigger") in _FIRED_BY_NO_TRIGGER:
        return Given(resolved, {}, mapped=True)
    values: dict[str, str] = {}
    mapped = False
    for template, text in texts:
        if (name := _trigger_reference(template)) is None:
            continue
        mapped = True
        value = _value(template, text)
        if value and name not in values:
            values[name] = value
    return Given(resolved, _arranged(values), mapped)


def mapping_to_add(trigger: str) -> list[dict[str, str]]:
    """The elements for the job's `parameters` that would hand on what a trigger of this kind gives."""
    references = _MAPPINGS.get(trigger, _ANY_KIND)
    return [{"name": name, "default": f"{{{{{reference}}}}}"} for name, reference in references.items()]


def is_reference(text: object) -> bool:
    """Whether the text holds a dynamic value reference that was not replaced."""
    if not isinstance(text, str):
        return False
    return any(match[1].partition(".")[0] in _NAMESPACES for match in _REFERENCE.finditer(text))


def _of_tasks(run: Mapping[str, Any]) -> Iterator[tuple[str | None, str | None, str]]:
    """(key, template, text) of each resolved text of each task; without a template the key is a job parameter's."""
    for task in run.get("tasks") or []:
        if isinstance(task, Mapping) and isinstance(values := task.get("resolved_values"), Mapping):
            yield from _pairs(None, task, values)


def _pairs(key: str | None, template: object, value: object) -> Iterator[tuple[str | None, str | None, str]]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _pairs(str(name), template.get(name) if isinstance(template, Mapping) else None, below)
    elif isinstance(value, list):
        templates = template if isinstance(template, list) and len(template) == len(value) else [""] * len(value)
        for one, below in zip(templates, value, strict=True):
            yield from _pairs(None, one, below)
    elif isinstance(value, str):
        yield key, template if isinstance(template, str) else None, value


def _only_parameter(template: str) -> str | None:
    match = _REFERENCE.fullmatch(template.strip())
    return _plain(match[1]).removeprefix(_PARAMETER) if match and _plain(match[1]).startswith(_PARAMETER) else None


def _expanded(template: str, templates: Mapping[str, str]) -> str:
    """With the references to job parameters replaced by what these refer to."""

    def one(match: re.Match[str]) -> str:
        name = _plain(match[1])
        return templates.get(name.removeprefix(_PARAMETER), match[0]) if name.startswith(_PARAMETER) else match[0]

    return _REFERENCE.sub(one, template)


def _trigger_reference(template: str) -> str | None:
    """The part after `job.trigger.` where that is the template's one reference."""
    names = [_plain(match[1]) for match in _REFERENCE.finditer(template)]
    return names[0].removeprefix(_TRIGGER) if len(names) == 1 and names[0].startswith(_TRIGGER) else None


def _value(template: str, text: str) -> str:
    """What the reference became, without the text around it; empty where it is not resolved."""
    match = _REFERENCE.search(template)
    assert match is not None
    before, after = template[: match.start()], template[match.end() :]
    if is_reference(text) or not (text.startswith(before) and text.endswith(after)):
        return ""
    return text[len(before) : len(text) - len(after)]


def _arranged(values: Mapping[str, str]) -> dict[str, Any]:
    """By name: the tables as a list, versions and times by table."""
    made: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    times: dict[str, dict[str, str]] = {}
    fired_at: dict[str, str] = {}
    for name, text in values.items():
        if name == "table_update.updated_tables":
            made["updated_tables"] = _parsed(text)
        elif match := re.fullmatch(r"table_update\.(.+)\.version", name):
            versions[match[1]] = int(text) if text.isdecimal() else text
        elif match := re.fullmatch(r"table_update\.(.+)\.commit_timestamp\.([^.]+)", name):
            times.setdefault(match[1], {})[match[2]] = text
        elif match := re.fullmatch(r"time\.(.+)", name):
            fired_at[match[1]] = text
        else:
            made[name.replace(".", "_")] = text
    named = {"commit_versions": versions, "commit_timestamps": times, "time": fired_at}
    return made | {name: value for name, value in named.items() if value}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _plain(name: str) -> str:
    return name.replace("`", "")
