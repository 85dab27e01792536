"""The specification of a subscription: a named consumer of sources, with its policy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.policy import Choices, Policy
from databricks_bridge.core.sources import DeltaTable, Source, Start, TriggeredRuns, check_start

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True)
class SubscriptionSpec:
    """What a subscription is, without Airflow. Raises InvalidArgument for what cannot work.

    `start` says where the first start begins; it has no default, on the subscription or else on every source.
    `max_commits_per_run` caps the versions of one table in one range, but for a range that starts before the first.
    `formerly` are names that it had before it was renamed: runs that name one of them are its own.
    """

    name: str
    sources: tuple[Source, ...]
    start: Start | None
    policy: Policy
    choices: Choices = field(default_factory=Choices)
    max_commits_per_run: int | None = None
    formerly: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.name, *self.formerly):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise InvalidArgument(f"subscription name {name!r}: use letters, digits, _ - and . (200 at most)")
        where = f"subscription {self.name!r}"
        if not self.sources:
            raise InvalidArgument(f"{where} has no sources; give at least one DeltaTable or TriggeredRuns")
        for source in self.sources:
            if not isinstance(source, DeltaTable | TriggeredRuns):
                raise InvalidArgument(f"{where}: {source!r} is no source; give DeltaTable(...) or TriggeredRuns(...)")
        doubled = sorted(alias for alias, n in Counter(source.alias for source in self.sources).items() if n > 1)
        if doubled:
            raise InvalidArgument(f"{where}: alias {', '.join(doubled)} is used twice; give alias= to the sources")
        check_start(self.start, f"start of {where}", versions=False)
        most = self.max_commits_per_run
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise InvalidArgument(f"max_commits_per_run of {where} is {most!r}; give a number from 1 on, or None")
        open_start = sorted(source.alias for source in self.sources if self.start is None and source.start is None)
        if open_start:
            raise InvalidArgument(
                f'{where} needs start="latest" (only what comes from now on) or start="earliest" (all there is first); '
                f"it has no default. Without it: {', '.join(open_start)}"
            )

    def start_of(self, source: Source) -> Start:
        """Where this source begins at its first start."""
        start = source.start if source.start is not None else self.start
        if start is None:
            raise InvalidArgument(f"{source.alias} has no start")
        return start

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, the same for the same specification: sorted lists, seconds."""
        return {
            "name": self.name,
            "sources": [_source_to_json(source) for source in self.sources],
            "start": self.start,
            "condition": self.policy.condition.value,
            "min_time_between_triggers": self.policy.min_time_between_triggers.total_seconds(),
            "wait_after_last_change": self.policy.wait_after_last_change.total_seconds(),
            "choices": self.choices.to_json(),
            "max_commits_per_run": self.max_commits_per_run,
            "formerly": list(self.formerly),
        }


def spec_from_json(value: Mapping[str, Any]) -> SubscriptionSpec:
    """Inverse of `SubscriptionSpec.to_json`."""
    return SubscriptionSpec(
        name=value["name"],
        sources=tuple(_source_from_json(source) for source in value["sources"]),
        start=value["start"],
        policy=Policy(
            condition=value["condition"],
            min_time_between_triggers=timedelta(seconds=value["min_time_between_triggers"]),
            wait_after_last_change=timedelta(seconds=value["wait_after_last_change"]),
        ),
        choices=Choices(**value.get("choices", {})),
        max_commits_per_run=value.get("max_commits_per_run"),
        formerly=tuple(value.get("formerly", ())),
    )


def as_sources(sources: Sequence[Source] | Source) -> tuple[Source, ...]:
    """One source or several, as a tuple, with the tables that their jobs write. Raises InvalidArgument for what has no order,
    which a watcher is told by.
    """
    if isinstance(sources, DeltaTable | TriggeredRuns):
        sources = (sources,)
    if not isinstance(sources, list | tuple):
        raise InvalidArgument(f"sources is {sources!r}; give a DeltaTable, a TriggeredRuns, or a list of them")
    runs = (source for source in sources if isinstance(source, TriggeredRuns))
    written = dict.fromkeys(table for one in runs for table in one.writes)
    return (*sources, *(table for table in written if table not in sources))


def _source_to_json(source: Source) -> dict[str, Any]:
    common = {"databricks_conn_id": source.databricks_conn_id, "alias": source.alias, "start": source.start}
    if isinstance(source, DeltaTable):
        names = ("via", "profile", "warehouse", "reader_profile", "reader_conn_id", "reader_warehouse")
        chosen = {name: value for name in names if (value := getattr(source, name)) is not None}
        if source.reads != "batch":
            chosen["reads"] = source.reads
        return {"kind": "delta_table", "table": source.table, "read_as": source.read_as, **common, **chosen}
    return {
        "kind": "triggered_runs",
        "job_id": source.job_id,
        "job_name": source.job_name,
        "triggers": sorted(source.triggers),
        "run_state": sorted(source.run_state),
        **common,
        **({"writes": [_source_to_json(table) for table in source.writes]} if source.writes else {}),
    }


def _source_from_json(value: Mapping[str, Any]) -> Source:
    fields = {name: field for name, field in value.items() if name != "kind"}
    if value["kind"] == "delta_table":
        return DeltaTable(**fields)
    fields["triggers"] = frozenset(fields["triggers"])
    fields["run_state"] = frozenset(fields["run_state"])
    fields["writes"] = tuple(_source_from_json(table) for table in fields.get("writes", ()))
    return TriggeredRuns(**fields)
