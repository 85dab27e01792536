"""The poll of several sources where one gives no answer, or a refusal, or none in time (T22)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from databricks_bridge.core.errors import (
    BridgeError,
    HistoryGap,
    InvalidArgument,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    Unavailable,
)
from databricks_bridge.core.left_out import LeftOut
from databricks_bridge.core.pending import Finding, TableFinding
from databricks_bridge.core.positions import Position
from databricks_bridge.core.sources import DeltaTable, TriggeredRuns
from databricks_bridge.core.subscription import SubscriptionSpec
from databricks_bridge.feeds.driver import Driver
from databricks_bridge.feeds.look import Looker
from databricks_bridge.feeds.polls import gathered, warn_of
from databricks_bridge.ledgers.memory import MemoryLedger
from tests.core.builders import FLIGHTS, NOW, WEATHER, at, plan_of, spec_of

GOOD = TableFinding(at(5), 5, NOW)


async def _never(name: str) -> Any:
    raise AssertionError(name)


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Scripted(Looker):
    """Answers each source as told: a finding, an error, or None for one that hangs."""

    answers: dict[str, Finding | Exception | None]
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        super().__init__(_never, self.clock)
        self.patience = 0.02

    async def _look_at_table(self, source: DeltaTable, mark: Position | None, *_: object) -> TableFinding:
        return await self._answer(source.alias)

    async def _look_at_runs(self, source: TriggeredRuns, mark: Position | None) -> Any:
        return await self._answer(source.alias)

    async def _answer(self, alias: str) -> Any:
        answer = self.answers[alias]
        if answer is None:
            await asyncio.sleep(3600)
        if isinstance(answer, Exception):
            raise answer
        return answer


SPEC = spec_of(FLIGHTS, WEATHER)
ALL = spec_of(FLIGHTS, WEATHER, condition="ALL_UPDATED")
PASSES = [Unavailable("502")]
STAYS = [NotFound("no table"), NotPermitted("no SELECT"), NotAuthenticated("token"), InvalidArgument("a view")]


async def looked(answers: dict[str, Finding | Exception | None], spec: SubscriptionSpec = SPEC) -> dict[str, Finding]:
    async with asyncio.timeout(10), Scripted(answers) as looker:
        return await looker.look(spec, {})


@pytest.mark.parametrize("error", [*PASSES, *STAYS])
async def test_one_that_fails_is_left_out(error: BridgeError) -> None:
    assert await looked({"flights": GOOD, "weather": error}) == {"flights": GOOD, "weather": LeftOut(error, NOW)}
    found = await looked({"flights": error, "weather": GOOD})
    assert found["flights"] == LeftOut(error, NOW)


@pytest.mark.parametrize("error", [*PASSES, *STAYS])
async def test_all_updated_needs_each(error: BridgeError) -> None:
    with pytest.raises(type(error)):
        await looked({"flights": GOOD, "weather": error}, ALL)


async def test_where_none_answers_the_first_error_is_raised() -> None:
    with pytest.raises(Unavailable, match="one"):
        await looked({"flights": Unavailable("one"), "weather": NotFound("two")})
    with pytest.raises(NotFound):
        await looked({"flights": NotFound("alone")}, spec_of(FLIGHTS))


async def test_what_takes_a_decision_is_told_whatever_the_others_say() -> None:
    with pytest.raises(HistoryGap):
        await looked({"flights": GOOD, "weather": HistoryGap("cut")})
    with pytest.raises(HistoryGap):
        await looked({"flights": Unavailable("502"), "weather": HistoryGap("cut")})


async def test_what_is_new_to_us_is_raised() -> None:
    with pytest.raises(RuntimeError, match="new"):
        await looked({"flights": RuntimeError("new"), "weather": None})


async def test_one_that_hangs_is_left_out_when_the_others_have_waited() -> None:
    found = await looked({"flights": None, "weather": GOOD})
    assert found["weather"] == GOOD
    assert isinstance(found["flights"], LeftOut)
    assert "no answer within 0.02 s of the others" in str(found["flights"])


async def test_runs_that_hang_do_not_hold_up_tables() -> None:
    runs = TriggeredRuns(job_name="silver", alias="silver", databricks_conn_id="ops")
    other = TriggeredRuns(job_name="bronze", alias="bronze", databricks_conn_id="ops")
    spec = replace(SPEC, sources=(FLIGHTS, runs, other))
    found = await looked({"flights": GOOD, "silver": None, "bronze": GOOD}, spec)
    assert isinstance(found["silver"], LeftOut)
    assert found["flights"] == GOOD


async def test_runs_that_alone_hang_do_not_hold_up_tables() -> None:
    runs = TriggeredRuns(job_name="silver", alias="silver", databricks_conn_id="ops")
    found = await looked({"flights": GOOD, "silver": None}, replace(SPEC, sources=(FLIGHTS, runs)))
    assert isinstance(found["silver"], LeftOut)
    assert found["flights"] == GOOD


async def test_a_warehouse_that_starts_is_waited_for() -> None:
    async def soon() -> int:
        return 1

    async def later() -> int:
        await asyncio.sleep(0.1)
        return 2

    assert await gathered({"a": soon(), "b": later()}, 0.001, never_cut={"b"}) == {"a": 1, "b": 2}


async def test_it_says_since_when_until_it_answers() -> None:
    looker = Scripted({"flights": GOOD, "weather": Unavailable("502")})
    first = (await looker.look(SPEC, {}))["weather"]
    looker.clock.now += timedelta(minutes=5)
    assert (await looker.look(SPEC, {}))["weather"] == first == LeftOut(looker.answers["weather"], NOW)  # type: ignore[arg-type]
    looker.answers["weather"] = GOOD
    assert (await looker.look(SPEC, {}))["weather"] == GOOD
    looker.answers["weather"] = Unavailable("502")
    again = (await looker.look(SPEC, {}))["weather"]
    assert isinstance(again, LeftOut)
    assert again.since == looker.clock.now


def test_it_is_warned_of_once_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    down = {"flights": GOOD, "weather": LeftOut(NotPermitted("no SELECT"), NOW)}
    known: frozenset[str] = frozenset()
    for findings in (down, down, {"flights": GOOD, "weather": GOOD}, down):
        known = warn_of("delays", findings, known)
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(told) == 2
    assert "weather of subscription 'delays' is left out since" in told[0]
    assert "NotPermitted: no SELECT; the other sources go on" in told[0]


@pytest.mark.parametrize("error", [*PASSES, *STAYS])
async def test_one_that_the_consumer_cannot_read_is_left_out(
    error: BridgeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of `read_as`, which comes after the poll: a share that was revoked stops no other source."""

    async def check(workspace: Any, consumer: Any, sources: Any, marks: Any) -> None:
        if WEATHER in sources or every:
            raise error

    monkeypatch.setattr("databricks_bridge.feeds.driver.check_readers", check)
    found: dict[str, Finding] = {"flights": GOOD, "weather": GOOD}

    def driver(spec: SubscriptionSpec) -> Driver:
        return Driver(replace(plan_of(), spec=spec), MemoryLedger(), Scripted({}), object(), now=Clock())  # type: ignore[arg-type]

    every = False
    readable = await driver(SPEC)._readable(found, {})
    assert readable["flights"] == GOOD
    assert readable["weather"] == LeftOut(error, NOW)
    with pytest.raises(type(error)):
        await driver(ALL)._readable(found, {})
    every = True
    with pytest.raises(type(error)):
        await driver(SPEC)._readable(found, {})
