"""`Subscription`: the one object that a DAG author defines, used by sensor, operator and asset alike."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast
from weakref import WeakValueDictionary

from airflow.sdk import Asset, AssetWatcher
from airflow.sdk.configuration import conf

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.policy import Choice, Choices, Condition, Policy
from databricks_bridge.core.record_size import sources_that_fit
from databricks_bridge.core.sources import Source, Start
from databricks_bridge.core.subscription import SubscriptionSpec, as_sources
from databricks_bridge.ledgers.address import Address, AirflowAddress, parse_address
from databricks_bridge.triggers.watch import SubscriptionWatchTrigger

if TYPE_CHECKING:
    from airflow.sdk import XComArg

    from databricks_bridge.core.stuck import StuckClaim
    from databricks_bridge.operators.around import SubscriptionCommitOperator

log = logging.getLogger(__name__)

_defined: WeakValueDictionary[str, Subscription] = WeakValueDictionary()


class Subscription:
    """A named consumer of Delta tables or trigger-fired runs.

    `start` says where the first start begins, `"latest"` or `"earliest"`; it has no default. `condition` and the two
    timers mean what they mean in Databricks' own table-update triggers. What happens when a table was re-created, replaced
    or cut back is chosen by `on_recreated`, `on_replaced` and `on_history_gap`: "fail" (the default), "full_rebuild" of what
    is there now, or "adopt" it without processing. `max_commits_per_run` caps how much of a backlog one run is given.
    `ledger` says where the record is kept: "airflow" (Airflow's asset state store, the default, or what `[databricks_bridge]
    ledger` says), the URL of a folder in an object store, or a control table; see `databricks_bridge.ledgers.address`.

    `formerly` are names that it had before `databricks-bridge subscription rename`: a first start is refused where runs name them.

    `expected_run_time` is how long a claim's run should take at most. A claim that is open for longer, whatever it waits for,
    counts in the metric `databricks_bridge.claim.stuck` (tag `subscription`; the gauge `databricks_bridge.claim.age` is in
    seconds), and `on_stuck_claim` is called with it, once for each generation in each task's process: by sensors and
    operators when they read the record or, where they follow the run themselves, when it is due. It must not block for long.

    `asset` carries the record and a watcher: `schedule=subscription.asset` starts a DAG run when there is something to do
    (it looks every `poll_interval`, and sends again after `resend_after`, doubling, while nothing happens). Operators and
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
        on_recreated: Choice | Literal["fail", "full_rebuild", "adopt"] = Choice.FAIL,
        on_replaced: Choice | Literal["fail", "full_rebuild", "adopt"] = Choice.FAIL,
        on_history_gap: Choice | Literal["fail", "full_rebuild", "adopt"] = Choice.FAIL,
        max_commits_per_run: int | None = None,
        ledger: str | None = None,
        poll_interval: timedelta = timedelta(seconds=30),
        resend_after: timedelta = timedelta(seconds=60),
        formerly: Sequence[str] = (),
        expected_run_time: timedelta | None = None,
        on_stuck_claim: Callable[[StuckClaim], None] | None = None,
    ) -> None:
        policy = Policy(
            condition=cast(Condition, condition),
            min_time_between_triggers=min_time_between_triggers,
            wait_after_last_change=wait_after_last_change,
        )
        choices = Choices(
            on_recreated=cast(Choice, on_recreated),
            on_replaced=cast(Choice, on_replaced),
            on_history_gap=cast(Choice, on_history_gap),
        )
        if not isinstance(formerly, list | tuple):
            raise InvalidArgument(f"formerly of subscription {name!r} is {formerly!r}; give a list of names")
        self.spec = SubscriptionSpec(
            name, as_sources(sources), start, policy, choices, max_commits_per_run, tuple(formerly)
        )
        self.ledger = parse_address(ledger or conf.get("databricks_bridge", "ledger", fallback="airflow"))
        check_fits(self.spec, self.ledger)
        if expected_run_time is not None:
            check_seconds(expected_run_time, "expected_run_time")
        if on_stuck_claim is not None and (expected_run_time is None or not callable(on_stuck_claim)):
            raise InvalidArgument(
                f"on_stuck_claim is {on_stuck_claim!r}; give a callable, and expected_run_time= from which on it is called"
            )
        self.expected_run_time, self.on_stuck_claim = expected_run_time, on_stuck_claim
        asset_name = f"databricks_bridge.{name}"
        watch = SubscriptionWatchTrigger(
            subscription=self.spec.to_json(),
            asset=asset_name,
            ledger=str(self.ledger),
            poll_interval=check_seconds(poll_interval, "poll_interval"),
            resend_after=check_seconds(resend_after, "resend_after"),
            expected_run_time=None
            if expected_run_time is None
            else check_seconds(expected_run_time, "expected_run_time"),
        )
        self.asset = Asset(
            name=asset_name,
            uri=f"x-databricks-bridge://subscription/{name}",
            watchers=[AssetWatcher(name=asset_name, trigger=watch)],
        )
        _check_one_definition(self, watch)

    @property
    def name(self) -> str:
        """The subscription's name, unique in one Airflow."""
        return self.spec.name

    def claim(self, **operator: Any) -> XComArg:
        """A task that claims what is pending; its output is for the tasks that work on it. See SubscriptionClaimOperator."""
        from databricks_bridge.operators.around import SubscriptionClaimOperator

        return SubscriptionClaimOperator(subscription=self, **operator).output

    def commit(self, **operator: Any) -> SubscriptionCommitOperator:
        """A task that commits what the claim task of the same DAG run handed out. See SubscriptionCommitOperator."""
        from databricks_bridge.operators.around import SubscriptionCommitOperator

        return SubscriptionCommitOperator(subscription=self, **operator)

    def __repr__(self) -> str:
        return f"Subscription({self.name!r}, {len(self.spec.sources)} sources)"


def check_fits(spec: SubscriptionSpec, ledger: Address) -> None:
    """Raise InvalidArgument where the Airflow ledger cannot hold the record of so many sources."""
    if not isinstance(ledger, AirflowAddress):
        return
    from databricks_bridge.ledgers.airflow import LIMIT_BYTES

    fit = sources_that_fit(spec.sources, LIMIT_BYTES)
    if fit < len(spec.sources):
        raise InvalidArgument(
            f"subscription {spec.name!r} has {len(spec.sources)} sources; the Airflow ledger keeps {LIMIT_BYTES} bytes, which is "
            f"room for {fit} of them. Keep its record in an object store (ledger='s3://bucket/prefix', or abfss, gs, file; for one "
            "that is in use: databricks-bridge subscription move), or divide it into several subscriptions"
        )


def _check_one_definition(new: Subscription, watch: SubscriptionWatchTrigger) -> None:
    """Warn of another definition of this name that differs and is in use in this process: Airflow would make the watcher anew
    at each parse, and at times have none. Two files that are parsed by two processes are seen by the watcher alone.
    """
    other = _defined.get(new.name)
    if other is not None and other.asset.watchers[0].trigger.serialize() != watch.serialize():
        log.warning(
            "subscription %r is defined twice, with a difference; define it once, in a module that all DAG files import, or its "
            "watcher ends at each parse",
            new.name,
        )
    _defined[new.name] = new


def check_seconds(value: object, field: str) -> float:
    """A positive timedelta as seconds. Raises InvalidArgument."""
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise InvalidArgument(f"{field} is {value!r}; give a positive timedelta")
    return value.total_seconds()
