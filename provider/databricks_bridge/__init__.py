"""Hybrid orchestration for Airflow and Databricks: public names, loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databricks_bridge.assets.subscription import Subscription
    from databricks_bridge.core.errors import (
        BridgeError,
        ClaimBlocked,
        ClaimUndecided,
        ConsumerMismatch,
        HistoryGap,
        InvalidArgument,
        LedgerLost,
        RunFailed,
        TableRecreated,
        TableReplaced,
        TargetChanged,
        TriggerPaused,
    )
    from databricks_bridge.core.postconditions import CheckpointReached, ControlTableReached
    from databricks_bridge.core.sources import DeltaTable, TriggeredRuns
    from databricks_bridge.core.stuck import StuckClaim
    from databricks_bridge.operators.incremental_run import DatabricksIncrementalRunOperator
    from databricks_bridge.sensors.delta_version import DeltaVersionSensor
    from databricks_bridge.sensors.subscription import DatabricksSubscriptionSensor
    from databricks_bridge.sensors.triggered_run import DatabricksTriggeredRunSensor

__version__ = "0.1.0"

__all__ = [
    "BridgeError",
    "CheckpointReached",
    "ClaimBlocked",
    "ClaimUndecided",
    "ConsumerMismatch",
    "ControlTableReached",
    "DatabricksIncrementalRunOperator",
    "DatabricksSubscriptionSensor",
    "DatabricksTriggeredRunSensor",
    "DeltaTable",
    "DeltaVersionSensor",
    "HistoryGap",
    "InvalidArgument",
    "LedgerLost",
    "RunFailed",
    "StuckClaim",
    "Subscription",
    "TableRecreated",
    "TableReplaced",
    "TargetChanged",
    "TriggerPaused",
    "TriggeredRuns",
]

_MODULES = {
    "BridgeError": "core.errors",
    "CheckpointReached": "core.postconditions",
    "ClaimBlocked": "core.errors",
    "ClaimUndecided": "core.errors",
    "ConsumerMismatch": "core.errors",
    "ControlTableReached": "core.postconditions",
    "DatabricksIncrementalRunOperator": "operators.incremental_run",
    "DatabricksSubscriptionSensor": "sensors.subscription",
    "DatabricksTriggeredRunSensor": "sensors.triggered_run",
    "DeltaTable": "core.sources",
    "DeltaVersionSensor": "sensors.delta_version",
    "HistoryGap": "core.errors",
    "InvalidArgument": "core.errors",
    "LedgerLost": "core.errors",
    "RunFailed": "core.errors",
    "StuckClaim": "core.stuck",
    "Subscription": "assets.subscription",
    "TableRecreated": "core.errors",
    "TableReplaced": "core.errors",
    "TargetChanged": "core.errors",
    "TriggerPaused": "core.errors",
    "TriggeredRuns": "core.sources",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
