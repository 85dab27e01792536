"""A watcher in trouble says so where people look: in the log, as a metric, in `status`, and by an event (T53, T37)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from databricks_bridge.cli.status import _trouble, _watch_lines
from databricks_bridge.core.errors import BridgeError, ConsumerMismatch, InvalidArgument, NotFound, Unavailable
from databricks_bridge.core.left_out import LeftOut
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.record import ClaimStatus, Record
from databricks_bridge.core.watching import note_from_json, restarts
from databricks_bridge.triggers import diary
from databricks_bridge.triggers.watch import SubscriptionWatchTrigger
from tests.core.builders import FLIGHTS, NOW, at, seconds, spec_of
from tests.core.driving import running_record
from tests.triggers.test_watch import NEW, Looks, watcher

NOTE = "databricks_bridge.watch"
IDLE = Record("delays", "http://w job 7", {"flights": at(5)}, revision=3)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diary, "_started", {})


class Kept(dict[str, Any]):
    """The asset state store of one asset, with all its keys."""

    def __getitem__(self, key: Any) -> Any:
        return self if not isinstance(key, str) else super().__getitem__(key)

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self[key] = value


async def play(
    trigger: SubscriptionWatchTrigger, slept: list[float], most: float
) -> list[tuple[float, dict[str, Any]]]:
    """The events of so many seconds, each with when it came."""
    sent = []

    async def rest(pause: float) -> None:
        slept.append(pause)
        if sum(slept) > most:
            raise asyncio.CancelledError

    trigger._sleep = rest
    try:
        async for event in trigger.run():
            sent += [(sum(slept), event.payload)]
    except asyncio.CancelledError:
        pass
    return sent


def in_trouble(error: Exception, record: Record | None = IDLE) -> tuple[SubscriptionWatchTrigger, list[float], Kept]:
    trigger, slept, _ = watcher(Looks(error))
    kept = Kept()
    if record is not None:
        kept["databricks_bridge.record"] = record.to_json()
    trigger.asset_state_store = kept  # type: ignore[assignment]
    return trigger, slept, kept


@pytest.mark.parametrize(
    "error",
    [
        NotFound("table main.silver.flihgts does not exist"),
        InvalidArgument("the view main.silver.v reads two tables"),
        RuntimeError("The conn_id `ops` isn't defined"),
    ],
    ids=["a typo, or a renamed table", "a view over two tables", "no connection"],
)
async def test_trouble_that_lasts_becomes_an_event_with_the_error(error: Exception) -> None:
    trigger, slept, _ = in_trouble(error)
    sent = await play(trigger, slept, 4 * 3600)
    assert 300 <= sent[0][0] <= 600
    assert sent[0][1]["subscription"] == "delays"
    assert str(error) in sent[0][1]["reason"]
    pauses = [later - sooner for (sooner, _), (later, _) in pairwise(sent)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 3600


async def test_an_old_name_in_the_code_becomes_an_event() -> None:
    trigger, slept, _ = in_trouble(NotFound("never asked"), Record("delays", "retired (was http://w job 7)", {}))
    sent = await play(trigger, slept, 1200)
    assert "ConsumerMismatch: subscription 'delays' is retired" in sent[0][1]["reason"]
    assert ConsumerMismatch.__name__ in sent[0][1]["reason"]


async def test_a_ledger_that_cannot_be_read_becomes_an_event() -> None:
    trigger, slept, kept = in_trouble(NotFound("never asked"), None)
    kept["databricks_bridge.record"] = {"schema": 99}
    assert "LedgerError: the record has schema 99" in (await play(trigger, slept, 1200))[0][1]["reason"]


async def test_an_outage_is_borne_for_an_hour() -> None:
    trigger, slept, _ = in_trouble(Unavailable("503"))
    sent = await play(trigger, slept, 2 * 3600)
    assert 3600 <= sent[0][0] <= 4300


@pytest.mark.parametrize("status", [ClaimStatus.BLOCKED, ClaimStatus.UNDECIDED])
async def test_never_while_a_claim_waits_for_a_person(status: ClaimStatus) -> None:
    trigger, slept, _ = in_trouble(NotFound("gone"), running_record(status))
    assert await play(trigger, slept, 2 * 3600) == []


async def test_it_warns_with_a_pause_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability import stats

    counted: list[dict[str, str]] = []
    gauges: list[float] = []
    monkeypatch.setattr(stats, "incr", lambda name, tags=None, **_: counted.append(tags))
    monkeypatch.setattr(stats, "gauge", lambda name, value, **_: gauges.append(value) if "trouble" in name else None)
    trigger, _, _ = watcher(Looks(*[NotFound("no table")] * 3, NEW))
    warned: list[str] = []
    trigger._diary._warn = lambda text, *values: warned.append(text % values)
    await anext(trigger.run())
    assert warned == ["the watcher of delays cannot poll: NotFound: no table"]
    assert counted == [{"subscription": "delays", "error": "NotFound"}] * 3
    assert gauges == [0, 60, 180, 0]


async def test_status_shows_the_trouble_and_what_was_seen_last() -> None:
    trigger, slept, kept = in_trouble(NotFound("table main.silver.flihgts does not exist"))
    await play(trigger, slept, 100)
    note = note_from_json(kept[NOTE])
    assert note.trouble == "NotFound: table main.silver.flihgts does not exist"
    assert _watch_lines("delays", note, NOW)[-1].startswith(
        "  WATCHER IN TROUBLE since 2026-01-01T12:00:00 UTC: NotFound"
    )
    trigger, slept, _ = watcher(Looks(TableFinding(at(9), None, None)))
    trigger.asset_state_store = kept  # type: ignore[assignment]
    await play(trigger, slept, 100)
    note = note_from_json(kept[NOTE])
    assert (note.trouble, dict(note.latest)) == ("", {"flights": "version 9"})
    assert _trouble("delays", note, NOW) == ""


async def test_a_watcher_that_is_made_anew_at_each_parse_is_told() -> None:
    kept = Kept()
    warned: list[str] = []
    for number in range(5):
        definition = spec_of(FLIGHTS).to_json()
        trigger = SubscriptionWatchTrigger(
            subscription=definition, asset="databricks_bridge.delays", poll_interval=30.0 + number % 2
        )
        trigger.asset_state_store = kept  # type: ignore[assignment]
        trigger._now = lambda number=number: seconds(30 * number)  # type: ignore[misc]
        trigger._diary._warn = lambda text, *values: warned.append(text % values)
        await trigger._keep_note()
    assert "was started 4 times in ten minutes, with 2 different definitions" in warned[0]
    assert "Define the subscription in one module" in warned[0]
    note = note_from_json(kept[NOTE])
    assert _watch_lines("delays", note, seconds(130))[-1].startswith("  WATCHER RESTARTS: ")
    assert _trouble("delays", note, seconds(130)) != ""
    assert _trouble("delays", note, seconds(3600)) == "", "it is over"


def test_one_definition_started_again_and_again_is_a_bare_asset_elsewhere() -> None:
    starts = [(seconds(30 * number).isoformat(), "one") for number in range(4)]
    assert "bare Asset" in restarts("delays", starts, seconds(100))
    assert restarts("delays", starts[:3], seconds(100)) == ""
    assert restarts("delays", starts, NOW + timedelta(hours=1)) == ""


@pytest.mark.parametrize("error", [NotFound("cut in an emoji \ud83d\0"), RuntimeError("x" * 9000 + "\ud83d\0")])
async def test_an_event_about_any_text_can_be_written(error: Exception) -> None:
    """Airflow's triggerer ends where an event is no UTF-8, and all its triggers with it."""
    trigger, slept, kept = in_trouble(error)
    sent = await play(trigger, slept, 1200)
    for told in (sent[0][1], kept[NOTE]):
        written = json.dumps(told, ensure_ascii=False).encode()
        assert len(written) < 3000
        assert b"\\u0000" not in written


@pytest.mark.parametrize(
    ("error", "after"), [(NotFound("no table main.silver.wether"), 300), (Unavailable("503"), 3600)]
)
async def test_a_source_that_stays_left_out_is_trouble_too(error: BridgeError, after: float) -> None:
    """With ANY_UPDATED the poll is answered by the other source, which has nothing: nobody else would tell of a typo."""
    out = {"flights": TableFinding(at(5), None, NOW), "weather": LeftOut(error, NOW)}
    trigger, slept, kept = in_trouble(error)
    trigger._looker.script = [out]  # type: ignore[union-attr]
    sent = await play(trigger, slept, 2 * after)
    assert after <= sent[0][0] <= after * 1.3
    assert (
        f"weather is left out since 2026-01-01T12:00:00+00:00: {type(error).__name__}: {error}" in sent[0][1]["reason"]
    )
    assert "weather is left out" in str(kept[NOTE])
    trigger, slept, kept = in_trouble(error)
    trigger._looker.script = [out, {"flights": TableFinding(at(5), None, NOW)}]  # type: ignore[union-attr]
    assert await play(trigger, slept, 2 * after) == []
    assert "left out" not in str(kept[NOTE])
