from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.policy import Condition, Hold, Policy, Ready, decide
from tests.core.builders import NOW, policies, seconds


@dataclass(frozen=True)
class Case:
    """Times in seconds; `changes` None where nothing is new; `at` maps a time to ready, or to when it holds until."""

    name: str
    changes: dict[str, float | None]
    at: dict[float, Any]
    min_time: float = 0
    wait: float = 0
    fired: float | None = None
    condition: str = "ANY_UPDATED"
    words: str = field(default="")


NEVER = None
CASES = [
    Case("nothing new holds for ever", {"a": None, "b": None}, {0: NEVER, 1e6: NEVER}, words="nothing new in a, b"),
    Case("without timers a change is enough", {"a": 5, "b": None}, {5: ("a",)}, words="new in a"),
    Case(
        "ALL_UPDATED holds while one is missing",
        {"a": 5, "b": None},
        {1e6: NEVER},
        condition="ALL_UPDATED",
        words="waits for b",
    ),
    Case("ALL_UPDATED is ready with the last one", {"b": 5, "a": 9}, {9: ("a", "b")}, condition="ALL_UPDATED"),
    Case(
        "wait_after_last_change counts from the newest change",
        {"a": 5, "b": 50},
        {50: 110, 109: 110, 110: ("a", "b")},
        wait=60,
    ),
    Case("the wait ends at its instant, not after it", {"a": 0}, {59.999: 60, 60: ("a",)}, wait=60),
    Case(
        "min_time_between_triggers counts from the last firing",
        {"a": 5},
        {5: 120, 119: 120, 120: ("a",)},
        min_time=120,
        fired=0,
    ),
    Case("the first firing has no interval to keep", {"a": 5}, {5: ("a",)}, min_time=120),
    Case("an interval long over holds nothing", {"a": 500}, {500: ("a",)}, min_time=120, fired=0),
    Case(
        "C01: 120 s and 60 s, changes at 5 s and 115 s, ready at 175 s",
        {"a": 5, "b": 115},
        {115: 175, 120: 175, 174.9: 175, 175: ("a", "b")},
        min_time=120,
        wait=60,
        fired=0,
        words="wait_after_last_change",
    ),
    Case(
        "C01: the interval ends later than the quiet",
        {"a": 5},
        {6: 120, 65: 120, 120: ("a",)},
        min_time=120,
        wait=60,
        fired=0,
        words="min_time_between_triggers",
    ),
    Case("C01: a commit each 50 s never leaves 60 s of quiet", {"a": 600}, {600: 660, 649: 660}, wait=60, fired=0),
    Case("a change from a clock ahead of ours is one of now", {"a": 100}, {0: ("a",), 100: ("a",)}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_decision(case: Case) -> None:
    policy = Policy(
        condition=Condition(case.condition),
        min_time_between_triggers=timedelta(seconds=case.min_time),
        wait_after_last_change=timedelta(seconds=case.wait),
    )
    changes = {name: None if at is None else seconds(at) for name, at in case.changes.items()}
    fired = None if case.fired is None else seconds(case.fired)
    for when, wanted in case.at.items():
        decision = decide(policy, changes, fired, seconds(when))
        if isinstance(wanted, tuple):
            assert isinstance(decision, Ready), f"at {when}: {decision}"
            assert decision.updated == wanted
        else:
            assert isinstance(decision, Hold), f"at {when}: {decision}"
            assert decision.until == (None if wanted is None else seconds(wanted))
    first = decide(policy, changes, fired, seconds(min(case.at)))
    assert case.words in first.reason


@given(
    policies,
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 10**6), min_size=1),
    st.none() | st.integers(0, 10**6),
    st.integers(10**6, 2 * 10**6),
)
def test_a_hold_until_t_is_ready_at_t_and_not_before(
    policy: Policy, changes: dict[str, int | None], fired: int | None, now: int
) -> None:
    found: dict[str, datetime | None] = {name: None if at is None else seconds(at) for name, at in changes.items()}
    last = None if fired is None else seconds(fired)
    decision = decide(policy, found, last, seconds(now))
    if isinstance(decision, Hold) and decision.until is not None:
        assert decision.until > seconds(now)
        assert isinstance(decide(policy, found, last, decision.until), Ready)
        assert isinstance(decide(policy, found, last, decision.until - timedelta(microseconds=1)), Hold)
    if isinstance(decision, Ready):
        assert decision.updated == tuple(sorted(name for name, at in changes.items() if at is not None))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"condition": "SOME_UPDATED"}, "use one of ANY_UPDATED, ALL_UPDATED"),
        ({"condition": "any_updated"}, "'any_updated'"),
        ({"condition": None}, "condition is None"),
        (
            {"min_time_between_triggers": timedelta(seconds=-1)},
            "min_time_between_triggers is -1 s; a timer cannot be negative",
        ),
        ({"wait_after_last_change": timedelta(microseconds=-1)}, "wait_after_last_change"),
        ({"wait_after_last_change": 60}, "give a datetime.timedelta"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words.replace(".", r"\.")) as refused:
        Policy(**arguments)
    assert isinstance(refused.value, ValueError)


def test_a_condition_given_as_text_is_the_enum_afterwards() -> None:
    assert Policy(condition="ALL_UPDATED").condition is Condition.ALL_UPDATED  # type: ignore[arg-type]


def test_timers_below_the_floor_of_databricks_are_fine_here() -> None:
    assert Policy(wait_after_last_change=timedelta(seconds=1)).wait_after_last_change == timedelta(seconds=1)


@pytest.mark.parametrize("ahead", [timedelta(seconds=2), timedelta(days=3)])
def test_a_clock_ahead_of_ours_never_makes_a_timer_of_zero_hold(ahead: timedelta) -> None:
    """The store's commit time and the claim's time are other machines' clocks."""
    assert decide(Policy(), {"a": NOW + ahead}, NOW + ahead, NOW) == Ready(("a",), "new in a")


def test_a_change_in_the_future_settles_from_now_on() -> None:
    policy = Policy(wait_after_last_change=timedelta(seconds=60))
    hold = decide(policy, {"a": NOW + timedelta(hours=5)}, None, NOW)
    assert isinstance(hold, Hold)
    assert hold.until == NOW + timedelta(seconds=60)
