"""Settings of jobs, tasks and runs that are neither followed nor kept."""

from __future__ import annotations

from databricks_bridge.local.refusals.model import Area, Refusal, refusals

REFUSALS: tuple[Refusal, ...] = refusals(Area.SETTING, {})
