"""Clients that cannot work, since they speak a protocol that is not served."""

from __future__ import annotations

from databricks_bridge.local.refusals.model import Refusal

REFUSALS: tuple[Refusal, ...] = ()
