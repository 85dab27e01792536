"""Values that the tests of core start from."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from databricks_bridge.core.claims import Plan
from databricks_bridge.core.policy import Choice, Choices, Condition, Policy
from databricks_bridge.core.positions import Range, RunsPosition, TablePosition
from databricks_bridge.core.record import Claim, ClaimStatus, Commit, Record, Target, Transition
from databricks_bridge.core.sources import DeltaTable, Source
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.core.task_try import TaskTry

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TARGET = Target("http://127.0.0.1:1", "1001", 7)
FLIGHTS = DeltaTable("main.silver.flights", "ops", read_as="ops_share.silver.flights")
WEATHER = DeltaTable("main.silver.weather", "met")


def seconds(count: float) -> datetime:
    """So many seconds after NOW."""
    return NOW + timedelta(seconds=count)


def spec_of(*sources: Source, start: Any = "earliest", **policy: Any) -> SubscriptionSpec:
    return SubscriptionSpec("delays", sources or (FLIGHTS,), start, Policy(**policy))


def plan_of(*sources: Source, **changes: Any) -> Plan:
    fields: dict[str, Any] = {"target": TARGET, "own_parameters": {"region": "NY"}, "pause": timedelta(seconds=30)}
    return Plan(spec_of(*sources), **(fields | changes))


def at(version: int, table_id: str | None = "t1", metadata_id: str | None = "m1") -> TablePosition:
    return TablePosition(version, table_id, metadata_id, f"f{version}" if version >= 0 else None)


def only_found(version: int, table_id: str | None = "t1", metadata_id: str | None = "m1") -> TablePosition:
    """What was there at a start at "latest", or when a table was adopted."""
    return replace(at(version, table_id, metadata_id), found=True)


versions = st.integers(min_value=-1, max_value=10_000)
maybe_text = st.none() | st.text(max_size=8)
run_ids = st.frozensets(st.integers(min_value=1, max_value=2**53), max_size=6)
table_positions = st.builds(TablePosition, versions, maybe_text, maybe_text, maybe_text)
passed_positions = st.builds(
    lambda mark, more: replace(mark, through=mark.version + more),
    table_positions,
    st.integers(min_value=1, max_value=99),
)
late_runs = st.frozensets(st.tuples(st.integers(min_value=0, max_value=99), st.integers(1, 9)), max_size=4)
runs_positions = st.builds(
    lambda low, done, late: RunsPosition(
        low, done, late=frozenset(one for one in late if one[0] < low and one[1] not in done)
    ),
    st.integers(min_value=0, max_value=2**42) | st.integers(min_value=0, max_value=99),
    run_ids | st.frozensets(st.integers(1, 9), max_size=4),
    late_runs,
)
positions = table_positions | passed_positions | runs_positions
aliases = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: not name.startswith("bridge"))
moments = st.datetimes(
    min_value=datetime(2020, 1, 1),
    max_value=datetime(2040, 1, 1),
    timezones=st.just(UTC),
)
table_ranges = st.builds(Range, aliases, st.text(max_size=12), table_positions, table_positions)
runs_ranges = st.builds(
    Range, aliases, st.text(max_size=12), runs_positions, runs_positions, st.lists(st.integers(1, 2**53)).map(tuple)
)
ranges = table_ranges | runs_ranges
targets = st.builds(Target, st.text(max_size=20), st.text(max_size=8), st.integers(1, 2**53))
parameter_sets = st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4)
task_tries = st.builds(
    TaskTry, st.text(max_size=8), st.text(max_size=8), st.text(max_size=8), st.integers(-1, 9), st.integers(1, 9)
)
tokens = st.text("0123456789abcdef", min_size=64, max_size=64)
commits = st.builds(
    Commit,
    token=tokens,
    run_id=st.none() | st.integers(1, 2**53),
    epoch=st.text(max_size=10),
    ranges=st.lists(ranges, max_size=2).map(tuple),
    task=st.none() | task_tries,
)
claims = st.builds(
    Claim,
    ranges=st.lists(ranges, max_size=3).map(tuple),
    token=tokens,
    generation=st.integers(0, 5),
    target=targets,
    parameters=parameter_sets.map(lambda given: tuple(sorted(given.items()))),
    created_at=moments,
    run_id=st.none() | st.integers(1, 2**53),
    status=st.sampled_from(ClaimStatus),
    failures=st.integers(0, 5),
    idle=st.integers(0, 5),
    not_before=st.none() | moments,
    task=st.none() | task_tries,
)
records = st.builds(
    Record,
    subscription=st.text(max_size=10),
    consumer=st.text(max_size=10),
    watermarks=st.dictionaries(aliases, positions, max_size=3),
    epoch=st.text(max_size=10),
    last_claimed_at=st.none() | moments,
    claim=st.none() | claims,
    history=st.lists(st.builds(Transition, moments, st.text(max_size=10)), max_size=3).map(tuple),
    revision=st.integers(0, 1000),
    commits=st.lists(commits, max_size=2).map(tuple),
)
policies = st.builds(
    Policy,
    condition=st.sampled_from(Condition),
    min_time_between_triggers=st.timedeltas(timedelta(0), timedelta(days=7)),
    wait_after_last_change=st.timedeltas(timedelta(0), timedelta(days=7)),
)
choices = st.builds(
    Choices,
    on_recreated=st.sampled_from(Choice),
    on_replaced=st.sampled_from(Choice),
    on_history_gap=st.sampled_from(Choice),
)
