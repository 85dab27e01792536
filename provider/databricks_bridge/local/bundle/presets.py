"""`mode: development` and `presets`: what they change in the resources of a target."""

from __future__ import annotations

import re
from typing import Any

from databricks_bridge.local.bundle.targets import SHORT_NAME, Target
from databricks_bridge.local.bundle.values import Value, placed
from databricks_bridge.local.refusals import Area, words

_KNOWN = ("name_prefix", "trigger_pause_status", "jobs_max_concurrent_runs", "tags", "pipelines_development")
_DEVELOPMENT = {
    "name_prefix": f"[dev {SHORT_NAME}] ",
    "trigger_pause_status": "PAUSED",
    "jobs_max_concurrent_runs": 4,
}


def presets_of(target: Target) -> dict[str, Any]:
    """The presets of a target, with those that its mode sets. Raises FileError."""
    found: dict[str, Any] = {}
    for key, value in (target.root.get("presets") or target.root.like({})).fields().items():
        if key == "source_linked_deployment" and value.data:
            raise value.error(words(Area.BUNDLE, "presets.source_linked_deployment"))
        if key not in _KNOWN and key not in ("source_linked_deployment", "artifacts_dynamic_version"):
            raise value.error(f"is not a key here; use {', '.join(_KNOWN)}")
        if key == "trigger_pause_status" and value.data not in ("PAUSED", "UNPAUSED", None):
            raise value.error(f"is {value.data!r}; use PAUSED or UNPAUSED")
        found[key] = value.plain()
    if target.mode == "development":
        for key, default in _DEVELOPMENT.items():
            found[key] = found.get(key) or default
        found["tags"] = {"dev": SHORT_NAME, **(found.get("tags") or {})}
    return found


def applied(job: Value, key: str, presets: dict[str, Any]) -> Value:
    """A job as the presets make it, and with what the CLI sets in each: a name, one run at a time, a queue."""
    fields = dict(job.fields())
    name = fields["name"].text() if fields.get("name") is not None and fields["name"].data else key
    fields["name"] = fields.get("name", job).like(f"{presets.get('name_prefix') or ''}{name}")
    if tags := presets.get("tags"):
        given = fields.get("tags", job.like({}))
        own = {tag: value for tag, value in given.fields().items() if value.data not in (None, "")}
        fields["tags"] = given.like({**{tag: given.like(str(text)) for tag, text in tags.items()}, **own})
    runs = fields.get("max_concurrent_runs")
    if runs is None or not runs.data:
        fields["max_concurrent_runs"] = job.like(presets.get("jobs_max_concurrent_runs") or 1)
    if status := presets.get("trigger_pause_status"):
        for kind in ("schedule", "continuous", "trigger"):
            start = fields.get(kind)
            if start is not None and start.data is not None and start.get("pause_status") is None:
                fields[kind] = start.like({**start.fields(), "pause_status": start.like(status)})
    if fields.get("queue") is None and fields.get("continuous") is None:
        fields["queue"] = placed(job, {"enabled": True})
    return job.like(fields)


def prefixed_identifier(presets: dict[str, Any], name: str) -> str:
    """The name of a schema under a prefix, which loses what an identifier cannot have."""
    prefix = re.sub(r"[^\w]+", "_", str(presets.get("name_prefix") or "")).strip("_")
    return f"{prefix}_{name}" if prefix else name
