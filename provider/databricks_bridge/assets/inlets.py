"""The inlet that keeps a subscription's record alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset

from databricks_bridge.core.errors import InvalidArgument


def with_inlet(kwargs: Mapping[str, Any], subscription: object) -> dict[str, Any]:
    """Operator arguments with the subscription's asset among the inlets. Raises InvalidArgument for no Subscription.

    Only an inlet keeps the asset's state rows when another use of it vanishes (a file that fails to import).
    """
    asset = getattr(subscription, "asset", None)
    if not isinstance(asset, Asset):
        raise InvalidArgument(f"subscription is {subscription!r}; give a databricks_bridge.Subscription")
    inlets = kwargs.get("inlets") or []
    given = list(inlets) if isinstance(inlets, list | tuple | set) else [inlets]
    return {**kwargs, "inlets": given if asset in given else [*given, asset]}
