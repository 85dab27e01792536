"""Triggers of the local workspace: each kind is a pure decision, one loop evaluates them."""

from __future__ import annotations

from databricks_bridge.local.triggers.scheduler import TriggerScheduler

__all__ = ["TriggerScheduler"]
