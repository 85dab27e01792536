"""The inlet that keeps a subscription's record alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset


def with_inlet(kwargs: Mapping[str, Any], asset: Asset) -> dict[str, Any]:
    """Operator arguments with `asset` among the inlets.

    Only an inlet keeps the asset's state rows when another use of it vanishes (a file that fails to import).
    """
    inlets = kwargs.get("inlets") or []
    given = list(inlets) if isinstance(inlets, list | tuple | set) else [inlets]
    return {**kwargs, "inlets": given if asset in given else [*given, asset]}
