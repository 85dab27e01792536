from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.policy import Policy
from databricks_bridge.core.sources import RESULT_STATES, TRIGGER_KINDS, DeltaTable, TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec, as_sources, spec_from_json
from tests.core.builders import FLIGHTS, WEATHER, choices, policies, spec_of

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True).filter(lambda name: not name.startswith("bridge"))
tables = st.builds(
    lambda c, s, t, **more: DeltaTable(f"{c}.{s}.{t}", **more),
    names,
    names,
    names,
    databricks_conn_id=st.text(min_size=1, max_size=5).filter(str.strip),
    read_as=st.none() | st.just("share.s.t"),
    start=st.sampled_from(["latest", "earliest", 0, 9]),
)
runs = st.builds(
    TriggeredRuns,
    job_id=st.integers(1, 2**53),
    triggers=st.frozensets(st.sampled_from(sorted(TRIGGER_KINDS)), min_size=1),
    run_state=st.frozensets(st.sampled_from(sorted(RESULT_STATES)), min_size=1),
    start=st.sampled_from(["latest", "earliest"]),
)
specs = st.builds(
    SubscriptionSpec,
    st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    st.lists(tables | runs, min_size=1, max_size=4, unique_by=lambda source: source.alias).map(tuple),
    st.sampled_from([None, "latest", "earliest"]),
    policies,
    choices,
    st.none() | st.integers(1, 1000),
)


@given(specs)
def test_a_specification_makes_the_way_through_json(spec: SubscriptionSpec) -> None:
    text = json.dumps(spec.to_json(), sort_keys=True)
    back = spec_from_json(json.loads(text))
    assert back == spec
    assert json.dumps(back.to_json(), sort_keys=True) == text


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "a/b", "ä", "a" * 201, None, 3])
def test_a_name_that_cannot_be_part_of_a_uri_is_refused(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="use letters, digits"):
        SubscriptionSpec(name, (FLIGHTS,), "latest", Policy())


def test_there_is_no_default_start() -> None:
    with pytest.raises(InvalidArgument, match=r'needs start="latest".*Without it: flights, weather'):
        SubscriptionSpec("s", (FLIGHTS, WEATHER), None, Policy())


def test_a_start_on_every_source_is_enough_and_one_missing_is_named() -> None:
    one, other = DeltaTable("a.b.c", start=3), DeltaTable("a.b.d", start="latest")
    assert SubscriptionSpec("s", (one, other), None, Policy()).start_of(one) == 3
    with pytest.raises(InvalidArgument, match="Without it: flights"):
        SubscriptionSpec("s", (one, FLIGHTS), None, Policy())


def test_the_start_of_a_source_wins_over_that_of_the_subscription() -> None:
    one = DeltaTable("a.b.c", start=0)
    spec = SubscriptionSpec("s", (one, FLIGHTS), "latest", Policy())
    assert spec.start_of(one) == 0
    assert spec.start_of(FLIGHTS) == "latest"


@pytest.mark.parametrize("start", [0, 5, "LATEST", True])
def test_a_version_is_a_start_for_one_source_only(start: Any) -> None:
    with pytest.raises(InvalidArgument, match="start of subscription 's'"):
        SubscriptionSpec("s", (FLIGHTS,), start, Policy())


def test_no_sources_no_subscription() -> None:
    with pytest.raises(InvalidArgument, match="has no sources"):
        SubscriptionSpec("s", (), "latest", Policy())


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"'main\.silver\.flights' is no source"):
        SubscriptionSpec("s", ("main.silver.flights",), "latest", Policy())  # type: ignore[arg-type]


def test_one_alias_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="alias flights is used twice"):
        spec_of(FLIGHTS, DeltaTable("other.silver.flights"))
    assert len(spec_of(FLIGHTS, DeltaTable("other.silver.flights", alias="others")).sources) == 2


def test_one_source_need_not_be_a_list() -> None:
    assert as_sources(FLIGHTS) == (FLIGHTS,)
    assert as_sources([FLIGHTS, WEATHER]) == (FLIGHTS, WEATHER)


@pytest.mark.parametrize(
    "sources",
    [{FLIGHTS, WEATHER}, {"a": FLIGHTS}, iter([FLIGHTS]), "main.silver.flights", None, 5],
    ids=lambda one: type(one).__name__,
)
def test_sources_without_an_order_are_refused(sources: Any) -> None:
    """A watcher is told by its arguments: with a set they would be others at every parse."""
    with pytest.raises(InvalidArgument, match=r"sources is .*; give a DeltaTable, a TriggeredRuns, or a list of them"):
        as_sources(sources)


@pytest.mark.parametrize("most", [0, -1, True, 2.0, "2"])
def test_a_cap_that_is_no_number_from_1_on_is_refused(most: Any) -> None:
    with pytest.raises(
        InvalidArgument, match=r"max_commits_per_run of subscription 's' is .*; give a number from 1 on"
    ):
        SubscriptionSpec("s", (FLIGHTS,), "latest", Policy(), max_commits_per_run=most)


def test_a_specification_that_was_written_before_there_were_choices_reads_as_the_defaults() -> None:
    value = spec_of(FLIGHTS).to_json()
    del value["choices"], value["max_commits_per_run"]
    assert spec_from_json(value) == spec_of(FLIGHTS)


def test_the_tables_that_a_job_writes_are_sources_too() -> None:
    runs = TriggeredRuns(job_name="silver", databricks_conn_id="ops", writes=["main.silver.flights", WEATHER])  # type: ignore[arg-type]
    sources = as_sources([runs, WEATHER])
    assert [source.alias for source in sources] == ["silver", "weather", "flights"]
    assert sources[2] == DeltaTable("main.silver.flights", "ops")
    spec = SubscriptionSpec("s", sources, "earliest", Policy())
    assert spec_from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize("writes", ["main.silver.flights", {"main.silver.flights"}, [3], None])
def test_tables_that_a_job_writes_are_given_as_a_list(writes: Any) -> None:
    with pytest.raises(InvalidArgument, match="writes of TriggeredRuns"):
        TriggeredRuns(job_name="silver", writes=writes)
