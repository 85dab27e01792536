"""`Subscription`: the one object that a DAG author defines, used by sensor, operator and asset alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, cast

from airflow.sdk import Asset

from databricks_bridge.core.policy import Condition, Policy
from databricks_bridge.core.sources import Source, Start
from databricks_bridge.core.subscription import SubscriptionSpec, as_sources


class Subscription:
    """A named consumer of Delta tables or trigger-fired runs.

    `start` says where the first start begins, `"latest"` or `"earliest"`; it has no default. `condition` and the two
    timers mean what they mean in Databricks' own table-update triggers. `asset` carries the record: operators and
    sensors take it as inlet by themselves, a mapped one needs `partial(inlets=[subscription.asset])`.
    Raises InvalidArgument (a ValueError) at parse for what cannot work.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[Source] | Source,
        *,
        start: Start | None = None,
        condition: Condition | Literal["ANY_UPDATED", "ALL_UPDATED"] = Condition.ANY_UPDATED,
        min_time_between_triggers: timedelta = timedelta(0),
        wait_after_last_change: timedelta = timedelta(0),
    ) -> None:
        policy = Policy(
            condition=cast(Condition, condition),
            min_time_between_triggers=min_time_between_triggers,
            wait_after_last_change=wait_after_last_change,
        )
        self.spec = SubscriptionSpec(name, as_sources(sources), start, policy)
        self.asset = Asset(name=f"databricks_bridge.{name}", uri=f"x-databricks-bridge://subscription/{name}")

    @property
    def name(self) -> str:
        """The subscription's name, unique in one Airflow."""
        return self.spec.name

    def __repr__(self) -> str:
        return f"Subscription({self.name!r}, {len(self.spec.sources)} sources)"
