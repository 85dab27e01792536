"""The switch `cooldown_after_run` is about `min_time_between_triggers_seconds`, and about nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.local.triggers.port import BEGINNING
from tests.local.triggers.site import FLIGHTS, Site, on_tables
from tests.local.triggers.test_clock_back import KINDS, NEWS

MINUTES = 5
OTHERS: dict[str, dict[str, Any]] = {
    **{name: settings for name, (settings, _) in KINDS.items()},
    "continuous": {"continuous": {}},
    "table update of all": on_tables(FLIGHTS, condition="ALL_UPDATED"),
}


async def looks_at(site: Site, kind: str) -> list[int]:
    """The seconds at which a trigger without a cooldown fires, with news each minute; its first run never ends."""
    news = KINDS[kind][1] if kind in KINDS else KINDS["table update"][1]
    site.write(FLIGHTS, 0)
    site.jobs.put(1, OTHERS[kind])
    fired: list[int] = []
    for second in range(1, 60 * MINUTES + 2):
        if second % 60 == 10:
            news(site)
        await site.until(second)
        fired += [second] * (len(site.fired()) - len(fired))
    return fired


@pytest.mark.parametrize("kind", OTHERS)
async def test_a_trigger_without_a_cooldown_is_not_touched(tmp_path: Path, kind: str) -> None:
    plain = await looks_at(Site(tmp_path / "off"), kind)
    assert len(plain) == (1 if kind == "continuous" else MINUTES)
    assert await looks_at(Site(tmp_path / "on", cooldown_after_run=True), kind) == plain


@pytest.mark.parametrize("kind", NEWS)
async def test_a_cooldown_waits_for_the_end_of_the_run(tmp_path: Path, kind: str) -> None:
    settings, news = NEWS[kind]
    second_run = {}
    for after_run in (False, True):
        site = Site(tmp_path / str(after_run), cooldown_after_run=after_run)
        site.write(FLIGHTS, 0)
        site.jobs.put(1, settings(min_time_between_triggers_seconds=120))
        await site.until(1)
        news(site)
        await site.until(61)
        assert site.fired() == [1]
        await site.until(70)
        news(site)
        await site.until(100)
        site.jobs.end(1, 500, "SUCCESS", site.clock.at)
        while len(site.fired()) < 2 and site.clock.at < BEGINNING + 600:
            await site.until(site.clock.at - BEGINNING + 1)
        second_run[after_run] = round(site.clock.at - BEGINNING)
    assert 180 <= second_run[False] <= 182
    assert 220 <= second_run[True] <= 222
