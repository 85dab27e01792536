"""A few schedules as a smoke test; and the harness itself: with the token broken on purpose it must report violations."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core import acts, claims
from databricks_bridge.core.record import Claim
from databricks_bridge.feeds import driver
from databricks_bridge.workspace.client import Workspace
from faults import run
from faults.model import LEAST, demanded_cells
from faults.run import play_all, story_lines, thin

SEED = 1
SMOKE = (0, 1, 3, 4)
RACE, RESUMED, TRY_LOST = 33, 19, 25
Break = Callable[[pytest.MonkeyPatch], None]


async def test_nothing_is_lost_doubled_or_touched(tmp_path: Path) -> None:
    result = await play_all(SEED, SMOKE, tmp_path)
    assert (result.schedules, result.verdict.lines) == (len(SMOKE), [])
    assert sum(result.met.values()) > 20


async def test_a_seed_brings_a_schedule_back(tmp_path: Path) -> None:
    one, again = [await play_all(SEED, [SMOKE[0]], tmp_path / name, diary=True) for name in ("a", "b")]
    assert one.stories[0][2] == again.stories[0][2]
    assert one.met == again.met


@pytest.mark.spark
@pytest.mark.timeout(300)
async def test_on_real_spark_too_and_gold_has_every_row_once(tmp_path: Path) -> None:
    result = await play_all(SEED, [0], tmp_path, spark=True)
    assert (result.schedules, result.verdict.lines) == (1, [])


def test_a_cell_that_was_met_too_seldom_is_told_and_fails_the_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    enough = dict.fromkeys(demanded_cells(), LEAST)
    assert thin(enough) == []
    seldom = {**enough, ("429", "start"): LEAST - 1}
    assert thin(seldom) == [f"429 at start was met {LEAST - 1} times, and {LEAST} are demanded"]
    codes = []
    for met in (enough, seldom):
        monkeypatch.setattr(run, "_all", lambda *_, met=met: run.Result(schedules=1, met=Counter(met)))
        codes.append(run.main({}))
    assert codes == [0, 1]
    assert "429 at start was met" in capsys.readouterr().out


def to_in_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Claim] = claims._claim

    def broken(*arguments: Any, **options: Any) -> Claim:
        claim = real(*arguments, **options)
        facts = f"{claim.token} {[one.to.to_json() for one in claim.ranges]}"
        return with_token(claim, hashlib.sha256(facts.encode()).hexdigest())

    monkeypatch.setattr(claims, "_claim", broken)


def a_fresh_token_for_each_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "token_of", lambda *_: uuid.uuid4().hex)


def a_fresh_token_for_each_try(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(workspace: Workspace, claim: Claim, **_: Any) -> acts.Observation:
        run_id = await workspace.run_now(
            claim.target.job_id, job_parameters=dict(claim.parameters), idempotency_token=uuid.uuid4().hex
        )
        return acts.RunStarted(run_id)

    monkeypatch.setattr(driver, "start_run", start)


def with_token(claim: Claim, token: str) -> Claim:
    parameters = tuple((name, token if name == "bridge_token" else value) for name, value in claim.parameters)
    return replace(claim, token=token, parameters=parameters)


@pytest.mark.parametrize(
    ("break_it", "one"),
    [(to_in_the_token, RACE), (a_fresh_token_for_each_claim, RACE), (a_fresh_token_for_each_try, RESUMED)],
)
async def test_a_broken_token_is_reported(
    break_it: Break, one: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a schedule where two processes race over an upsert keep, and some die between claim and run."""
    break_it(monkeypatch)
    found = await play_all(SEED, [one], tmp_path)
    assert found.verdict.twice
    assert f"SEED={SEED} ONLY={one}" in "".join(story_lines(SEED, found))


async def test_a_try_after_a_commit_that_finds_nothing_new_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("untold_commit", "commit_of"):
        monkeypatch.setattr(f"databricks_bridge.core.protocol.opening.{name}", lambda record, task: None)
    found = await play_all(SEED, [TRY_LOST], tmp_path)
    assert found.met["try lost", "write"]
    assert "committed" in "".join(found.verdict.lines)
    assert found.verdict.lost
