"""The declaration, read from the official SDK. Not imported by the server."""

from __future__ import annotations

import enum
import inspect
import json
import re
import sys
from dataclasses import asdict, is_dataclass
from types import ModuleType
from typing import Any

from databricks_bridge.local.request_fields.declaration import Declaration

_CALLS = {
    "POST jobs/create": ("jobs", "JobsAPI.create", ("Task",)),
    "POST jobs/update": ("jobs", "JobsAPI.update", ()),
    "POST jobs/reset": ("jobs", "JobsAPI.reset", ()),
    "POST jobs/delete": ("jobs", "JobsAPI.delete", ()),
    "POST jobs/run-now": ("jobs", "JobsAPI.run_now", ()),
    "POST jobs/runs/submit": ("jobs", "JobsAPI.submit", ("SubmitTask",)),
    "POST jobs/runs/cancel": ("jobs", "JobsAPI.cancel_run", ()),
    "POST jobs/runs/cancel-all": ("jobs", "JobsAPI.cancel_all_runs", ()),
    "POST jobs/runs/delete": ("jobs", "JobsAPI.delete_run", ()),
    "POST jobs/runs/repair": ("jobs", "JobsAPI.repair_run", ()),
    "POST catalogs": ("catalog", "CatalogsAPI.create", ()),
    "PATCH catalogs": ("catalog", "CatalogsAPI.update", ()),
    "POST schemas": ("catalog", "SchemasAPI.create", ()),
    "PATCH schemas": ("catalog", "SchemasAPI.update", ()),
    "POST volumes": ("catalog", "VolumesAPI.create", ()),
    "PATCH volumes": ("catalog", "VolumesAPI.update", ()),
    "PATCH tables": ("catalog", "TablesAPI.update", ()),
    "PATCH permissions": ("catalog", "GrantsAPI.update", ()),
    "POST sql/statements": ("sql", "StatementExecutionAPI.execute_statement", ()),
    "POST repos": ("workspace", "ReposAPI.create", ()),
    "PATCH repos": ("workspace", "ReposAPI.update", ()),
    "POST workspace/mkdirs": ("workspace", "WorkspaceAPI.mkdirs", ()),
    "POST workspace/import": ("workspace", "WorkspaceAPI.import_", ()),
    "POST workspace/delete": ("workspace", "WorkspaceAPI.delete", ()),
    "PUT access": ("iam", "PermissionsAPI.set", ()),
}
"""Module and method of the SDK, and data classes whose fields may stand at the top too, as in the Jobs API 2.0."""
_MORE = {
    "POST sql/statements": {"session_id": "text"},
    "jobs.TriggerSettings": {"table": "jobs.TableUpdateTriggerConfiguration"},
    "jobs.TriggerConfiguration": {"table": "jobs.TableUpdateTriggerConfiguration"},
    "compute.ClusterSpec": dict.fromkeys(("spark_conf", "spark_env_vars", "custom_tags"), "{scalar}"),
    "jobs.JobCompletionTriggerConfigurationMonitoredJob": {"job_id": "id", "workspace_id": "id"},
}
"""Fields that the SDK lacks or has otherwise: the name of `table_update` before 2025, and ids that come as numbers too.

The API takes numbers and flags among the settings of Spark (databricks/cli issue 992)."""
_SCALARS = {"str": "text", "int": "integer", "float": "number", "bool": "boolean", "any": "any", "Any": "any"}
_PARTS = re.compile(r"(Optional|List|Dict|Iterator)\[(.*)\]$")


def declared_by_sdk() -> Declaration:
    """What the installed SDK says of the calls that are served."""
    found = Declaration({}, {}, {})
    for call, (name, method, more) in _CALLS.items():
        module = _module(name)
        owner, _, function = method.partition(".")
        parameters = inspect.signature(getattr(getattr(module, owner), function)).parameters
        hints = {part: str(one.annotation) for part, one in parameters.items() if part != "self"}
        for other in more:
            hints = {**vars(getattr(module, other))["__annotations__"], **hints}
        found.calls[call] = {part: _word(module, hint, found) for part, hint in hints.items()} | _MORE.get(call, {})
    return found


def written(declaration: Declaration) -> str:
    """The declaration as it is kept: one object a line."""
    parts = []
    for part, entries in asdict(declaration).items():
        lines = [f"    {json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries)]
        parts.append(f'  "{part}": {{\n' + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _module(name: str) -> ModuleType:
    full = f"databricks.sdk.service.{name}"
    __import__(full)
    return sys.modules[full]


def _word(module: ModuleType, hint: str, found: Declaration) -> str:
    if parts := _PARTS.match(hint):
        kind, inner = parts.groups()
        if kind == "Optional":
            return _word(module, inner, found)
        if kind == "Dict":
            return f"{{{_word(module, inner.partition(',')[2].strip(), found)}}}"
        return f"[{_word(module, inner, found)}]"
    if hint in _SCALARS:
        return _SCALARS[hint]
    where, _, name = hint.rpartition(".")
    there = _module(where) if where else module
    return _named(getattr(there, name), found)


def _named(kind: Any, found: Declaration) -> str:
    # With the module: sql and jobs each have a Format.
    name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        found.enums.setdefault(name, [str(one.value) for one in kind])
        return name
    if not is_dataclass(kind):
        return "any"
    if name not in found.objects:
        fields = found.objects[name] = {}
        for part, hint in vars(kind)["__annotations__"].items():
            fields[part] = _word(sys.modules[kind.__module__], str(hint), found)
        fields |= _MORE.get(name, {})
    return name
