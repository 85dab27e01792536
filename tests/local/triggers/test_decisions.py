"""Each kind of trigger as a decision over what was seen, without files and without a clock."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databricks_bridge.core.policy import Condition, Policy
from databricks_bridge.local.triggers.commits import Commit
from databricks_bridge.local.triggers.continuous import Ended, decide_continuous
from databricks_bridge.local.triggers.file_arrival import decide_file_arrival
from databricks_bridge.local.triggers.job_completion import Completion, api_state, decide_job_completion
from databricks_bridge.local.triggers.outcome import Fire, Held, State
from databricks_bridge.local.triggers.periodic import decide_periodic
from databricks_bridge.local.triggers.settings import FileArrival, JobCompletion, TableUpdate
from databricks_bridge.local.triggers.table_update import TableLook, decide_table_update
from databricks_bridge.local.triggers.table_update import api_state as table_state

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
URL = "/Volumes/main/landing/flights/"
FLIGHTS, WEATHER = "main.silver.flights", "main.silver.weather"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def timers(minimum: float = 0, wait: float = 0, condition: Condition = Condition.ANY_UPDATED) -> Policy:
    return Policy(
        condition=condition,
        min_time_between_triggers=timedelta(seconds=minimum),
        wait_after_last_change=timedelta(seconds=wait),
    )


@dataclass
class Folder:
    """A watched folder: put and remove names at times, look, and see the times at which the trigger fires."""

    policy: Policy
    files: dict[str, datetime] = field(default_factory=dict)
    state: State | None = None
    fired: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def look(self, seconds: float) -> None:
        settings = FileArrival(URL, self.policy)
        # A look gets back what was kept as JSON.
        kept = None if self.state is None else json.loads(json.dumps(self.state))
        outcome = decide_file_arrival(settings, self.policy, self.files, kept, at(seconds), at(seconds))
        self.state = outcome.state
        self.reasons.append(outcome.reason)
        if isinstance(outcome, Fire):
            assert outcome.run_trigger == "FILE_ARRIVAL"
            assert outcome.context == {"type": "file_arrival", "file_arrival.location": URL}
            self.fired.append(seconds)

    def play(self, changes: Iterable[tuple[float, str]], looks: Iterable[float]) -> list[float]:
        todo = sorted(changes)
        for seconds in looks:
            while todo and todo[0][0] <= seconds:
                when, name = todo.pop(0)
                if name.startswith("-"):
                    del self.files[name[1:]]
                else:
                    self.files[name] = at(when)
            self.look(seconds)
        return self.fired


EVERY_SECOND = range(0, 601)


@pytest.mark.parametrize(
    ("name", "policy", "changes", "looks", "fired"),
    [
        ("files from before are the baseline", timers(), [(-9, "old")], range(0, 181, 60), []),
        ("a new name fires", timers(), [(-9, "old"), (30, "new")], range(0, 181, 60), [60]),
        ("two names at once are one run", timers(), [(30, "a"), (40, "b")], range(0, 181, 60), [60]),
        ("an overwrite does not fire", timers(), [(-9, "a"), (30, "a"), (90, "a")], range(0, 181, 60), []),
        ("deleted, seen gone, there again: fires", timers(), [(-9, "a"), (30, "-a"), (90, "a")], range(0, 181, 60), [120]),
        ("replaced between two looks is an overwrite", timers(), [(-9, "a"), (61, "-a"), (62, "a")], range(0, 181, 60), []),
        ("settling counts from the last file", timers(wait=60), [(5, "a"), (50, "b"), (100, "c")], EVERY_SECOND, [160]),
        ("one file every 50 s never fires with 60 s settling, until quiet", timers(wait=60),
         [(50 * n, f"f{n}") for n in range(1, 9)], EVERY_SECOND, [460]),
        ("the first file does not wait for the cool-down", timers(minimum=120), [(5, "a")], EVERY_SECOND, [5]),
        ("the cool-down counts from the last firing", timers(minimum=120), [(5, "a"), (6, "b")], EVERY_SECOND, [5, 125]),
        ("pending files are not lost by deletion", timers(wait=60), [(5, "a"), (20, "-a")], EVERY_SECOND, [65]),
    ],
)  # fmt: skip
def test_file_arrival(
    name: str, policy: Policy, changes: list[tuple[float, str]], looks: Iterable[float], fired: list[float]
) -> None:
    assert Folder(policy).play(changes, looks) == fired


def test_an_old_modification_time_does_not_cut_the_settling_window_short() -> None:
    folder = Folder(timers(wait=60))
    folder.look(0)
    folder.files["moved"] = at(-500)
    for seconds in (30, 59, 60, 61):
        folder.look(seconds)
    # It arrived between the looks at 0 and 30: no earlier than 0.
    assert folder.fired == [60]


def test_a_modification_time_in_the_future_does_not_hold_for_ever() -> None:
    folder = Folder(timers(wait=60))
    folder.look(0)
    folder.files["ahead"] = at(10_000)
    assert folder.play([], range(10, 200, 10)) == [70]


def test_another_url_is_another_trigger() -> None:
    first = decide_file_arrival(FileArrival(URL, timers()), timers(), {"a": at(0)}, None, at(1), at(1))
    other = FileArrival("/Volumes/main/landing/other/", timers())
    second = decide_file_arrival(other, timers(), {"b": at(0)}, first.state, at(2), at(2))
    assert isinstance(second, Held)


@dataclass
class Tables:
    """Watched tables: each look is given the commits since the last one."""

    policy: Policy
    every_commit: bool = False
    names: tuple[str, ...] = (FLIGHTS, WEATHER)
    state: State | None = None
    fires: list[tuple[float, Fire]] = field(default_factory=list)
    last: Any = None

    def look(self, seconds: float, **commits: list[tuple[int, float, bool]]) -> None:
        kept = None if self.state is None else json.loads(json.dumps(self.state))
        looks = {}
        for name in self.names:
            new = tuple(Commit(v, at(s), data) for v, s, data in commits.get(name.split(".")[2], []))
            before = -1 if kept is None or name not in kept["tables"] else kept["tables"][name]["version"]
            looks[name] = TableLook("id-" + name, new[-1].version if new else before, new)
        settings = TableUpdate(self.names, self.policy)
        outcome = decide_table_update(settings, self.policy, looks, kept, at(seconds), every_commit=self.every_commit)
        self.state, self.last = outcome.state, outcome
        if isinstance(outcome, Fire):
            self.fires.append((seconds, outcome))

    def seen(self) -> list[bool]:
        shown = table_state(TableUpdate(self.names, self.policy), self.state)
        return [table["has_seen_updates"] for table in shown["table"]["last_seen_table_states"]]


def test_the_documented_example_of_both_timers() -> None:
    """120 s and 60 s, fired at 0, changes at 5 s and 115 s: fires at 175 s."""
    tables = Tables(timers(120, 60))
    tables.look(-100)
    tables.look(-60, flights=[(0, -60, True)])
    for second in range(-59, 1):
        tables.look(second)
    assert [when for when, _ in tables.fires] == [0]
    for second in range(1, 300):
        commits = {5: [(1, 5.0, True)], 115: [(2, 115.0, True)]}.get(second)
        tables.look(second, **({"flights": commits} if commits else {}))
    assert [when for when, _ in tables.fires] == [0, 175]
    assert tables.fires[1][1].context == {
        "type": "table_update",
        "table_update.updated_tables": '["main.silver.flights"]',
        "table_update.main.silver.flights.version": "2",
    }
    assert tables.fires[1][1].times == {
        "table_update.main.silver.flights.commit_timestamp": round(at(115).timestamp() * 1000)
    }


def test_a_commit_every_50_seconds_never_fires_with_60_seconds_of_settling_until_it_is_quiet() -> None:
    tables = Tables(timers(0, 60))
    tables.look(0)
    for second in range(1, 700):
        commits = [(second // 50, float(second), True)] if second % 50 == 0 and second <= 500 else []
        tables.look(second, flights=commits)
    assert [when for when, _ in tables.fires] == [560]


def test_all_updated_remembers_per_table_without_a_window() -> None:
    tables = Tables(timers(condition=Condition.ALL_UPDATED))
    tables.look(0)
    tables.look(60, flights=[(1, 59, True)])
    assert tables.seen() == [True, False]
    for minute in range(2, 600):
        tables.look(60 * minute)
    assert tables.last.reason == "ALL_UPDATED waits for main.silver.weather"
    tables.look(36_000, weather=[(7, 35_999, True)])
    assert tables.last.context["table_update.updated_tables"] == '["main.silver.flights", "main.silver.weather"]'
    assert tables.last.context["table_update.main.silver.flights.version"] == "1"
    assert tables.last.context["table_update.main.silver.weather.version"] == "7"
    assert tables.seen() == [False, False]
    tables.look(36_060, weather=[(8, 36_050, True)])
    assert isinstance(tables.last, Held)


def test_any_updated_names_only_what_changed() -> None:
    tables = Tables(timers())
    tables.look(0)
    tables.look(60, weather=[(1, 30, True), (2, 40, True), (3, 50, False)])
    assert json.loads(tables.last.context["table_update.updated_tables"]) == [WEATHER]
    assert tables.last.context["table_update.main.silver.weather.version"] == "2"
    assert "table_update.main.silver.flights.version" not in tables.last.context
    tables.look(120)
    assert len(tables.fires) == 1


@pytest.mark.parametrize(("every_commit", "fires"), [(False, 0), (True, 1)])
def test_a_commit_without_data_fires_only_when_asked_for(every_commit: bool, fires: int) -> None:
    tables = Tables(timers(), every_commit=every_commit)
    tables.look(0)
    tables.look(60, flights=[(1, 59, False)])
    assert len(tables.fires) == fires


def test_a_table_that_comes_to_be_fires_with_its_first_data() -> None:
    settings = TableUpdate((FLIGHTS,), timers())
    nothing = decide_table_update(settings, settings.policy, {FLIGHTS: TableLook(None)}, None, at(0))
    created = TableLook("one", 0, (Commit(0, at(30), changes_data=False),))
    empty = decide_table_update(settings, settings.policy, {FLIGHTS: created}, nothing.state, at(60))
    filled = TableLook("one", 1, (Commit(1, at(90), changes_data=True),))
    outcome = decide_table_update(settings, settings.policy, {FLIGHTS: filled}, empty.state, at(120))
    assert (type(nothing), type(empty), type(outcome)) == (Held, Held, Fire)


def test_continuous_keeps_one_run_active_and_waits_longer_after_each_failure() -> None:
    first = decide_continuous([], [], None, at(0), 1.0)
    assert isinstance(first, Fire)
    assert first.run_trigger == "CONTINUOUS"
    busy = decide_continuous([7], [], first.state, at(60), 1.0)
    assert isinstance(busy, Held)
    pausing = decide_continuous([], [Ended(7, True, at(70))], busy.state, at(70), 1.0)
    assert isinstance(pausing, Held)
    assert pausing.until == at(90)
    assert "a run has just ended" in pausing.reason
    assert isinstance(decide_continuous([], [], pausing.state, at(89), 1.0), Held)
    again = decide_continuous([], [], pausing.state, at(90), 1.0)
    assert isinstance(again, Fire)
    scaled = decide_continuous([], [Ended(7, True, at(70))], busy.state, at(70), 0.05)
    assert isinstance(scaled, Held)
    assert scaled.until == at(71)
    state, waits = again.state, []
    for k in range(9):
        failed = decide_continuous([], [Ended(8 + k, False, at(1000 * k))], state, at(1000 * k), 1.0)
        assert isinstance(failed, Held)
        assert failed.until is not None
        waits.append((failed.until - at(1000 * k)).total_seconds() / 60)
        state = failed.state
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    healed = decide_continuous([], [Ended(30, True, at(9001))], state, at(9001), 1.0)
    assert isinstance(healed, Held)
    assert healed.until == at(9021)


def test_periodic_keeps_its_rhythm_and_makes_one_run_of_what_was_missed() -> None:
    hour = timedelta(hours=1)
    state: State | None = None
    fired = []
    for minute in (0, 59, 61, 119, 121, 400, 401, 421):
        outcome = decide_periodic(hour, state, at(60 * minute), START)
        state = outcome.state
        if isinstance(outcome, Fire):
            fired.append(minute)
    assert fired == [61, 121, 400, 421]


@pytest.mark.parametrize(
    ("if_status", "codes", "fires"),
    [
        ("SUCCESS", ["SUCCESS", "SUCCESS_WITH_FAILURES"], True),
        ("SUCCESS", ["SUCCESS", "RUN_EXECUTION_ERROR"], False),
        ("FAILED", ["RUN_EXECUTION_ERROR", "CANCELED"], True),
        ("DONE", ["SUCCESS", "CANCELED"], True),
    ],
)
def test_job_completion_waits_for_every_upstream_job(if_status: str, codes: list[str], fires: bool) -> None:
    settings = JobCompletion((("1001", "11"), ("1002", "12")), if_status)
    one = decide_job_completion(settings, [Completion("1001", "11", 51, codes[0], 1_772_366_400_000)], None)
    assert isinstance(one, Held)
    assert [
        job["has_seen_completion"] for job in api_state(settings, one.state)["job_completion"]["monitored_job_states"]
    ] == [True, False]
    two = decide_job_completion(settings, [Completion("1002", "12", 52, codes[1], 1_772_366_460_000)], one.state)
    assert isinstance(two, Fire) is fires
    if isinstance(two, Fire):
        assert [job["run_id"] for job in two.info["job_completion"]["completed_jobs"]] == ["51", "52"]
        assert two.info["job_completion"]["completed_jobs"][0]["completion_time"] == "2026-03-01T12:00:00.000000Z"
        assert isinstance(decide_job_completion(settings, [], two.state), Held)
