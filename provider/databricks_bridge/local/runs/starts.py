"""What starts a job by itself, as it stands in its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STARTS = ("trigger", "schedule", "continuous", "triggers")


def starting_part(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the settings that trigger state belongs to; empty for a job that only run-now starts."""
    return {name: settings[name] for name in STARTS if settings.get(name) is not None}


def is_paused(settings: Mapping[str, Any]) -> bool:
    return any(start.get("pause_status") == "PAUSED" for start in starting_part(settings).values())
