"""What starts a job by itself, as it stands in its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STARTS = ("trigger", "schedule", "continuous", "triggers")


def starting_part(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the settings that trigger state belongs to; empty for a job that only run-now starts."""
    return {name: settings[name] for name in STARTS if settings.get(name) is not None}


def starts(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What starts the job, each as an element of `settings.triggers` (TriggerConfiguration), also where it is not one."""
    if settings.get("triggers") is not None:
        return list(settings["triggers"])
    if settings.get("trigger") is not None:
        return [settings["trigger"]]
    return [
        {name: settings[name], "pause_status": settings[name].get("pause_status", "UNPAUSED")}
        for name in ("schedule", "continuous")
        if settings.get(name) is not None
    ]


def is_running_by_itself(settings: Mapping[str, Any]) -> bool:
    """Whether the job is continuous and not paused."""
    return any("continuous" in start and not is_paused(start) for start in starts(settings))


def is_paused(start: Mapping[str, Any]) -> bool:
    """Whether one element of `starts` is paused."""
    return start.get("pause_status") == "PAUSED"
