"""Notebook utilities and magics that are not served."""

from __future__ import annotations

from databricks_bridge.local.refusals.model import Area, Refusal, refusals

REFUSALS: tuple[Refusal, ...] = refusals(Area.NOTEBOOK, {})
