"""The notebook engine of a local deployment. Importing it does not import Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from databricks_bridge.local.engine.model import Engine, NotebookResult, NotebookRun

if TYPE_CHECKING:
    from databricks_bridge.local.engine.instant import InstantEngine
    from databricks_bridge.local.engine.spark import SparkEngine

__all__ = ["Engine", "InstantEngine", "NotebookResult", "NotebookRun", "SparkEngine"]


def __getattr__(name: str) -> Any:
    if name == "SparkEngine":
        from databricks_bridge.local.engine.spark import SparkEngine

        return SparkEngine
    if name == "InstantEngine":
        from databricks_bridge.local.engine.instant import InstantEngine

        return InstantEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
