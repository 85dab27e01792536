"""Faults that users of neighbouring projects reported, held against the ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from databricks_bridge.core import repair
from databricks_bridge.core.errors import LedgerError, WriteLost
from databricks_bridge.core.positions import Range, TablePosition
from databricks_bridge.core.reason import Reason
from databricks_bridge.core.record import Claim, Record, token_of
from databricks_bridge.ledgers.object_store import ObjectStoreKeep
from databricks_bridge.ledgers.protocol import Ledger
from tests.core.builders import NOW, TARGET, at
from tests.ledgers.bucket import Bucket, serve
from tests.ledgers.keeps import KEEPS

FIRST = Record("delays", TARGET.consumer, {"flights": at(3)}).after(NOW, "started flights")
WHY = Reason("ada", "the source was made again")


@pytest.fixture(params=KEEPS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return KEEPS[request.param](tmp_path)


@pytest.fixture
async def bucket(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    async with serve() as bucket:
        for name, value in (
            ("AWS_ENDPOINT_URL", bucket.url),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "key"),
            ("AWS_REGION", "eu-west-3"),
            ("NO_PROXY", "127.0.0.1"),
        ):
            monkeypatch.setenv(name, value)
        yield bucket


def claimed(record: Record, to: int, consumer: str) -> Record:
    """The write by which a consumer claims up to `to`."""
    mark = record.watermarks["flights"]
    token = token_of("delays", TARGET, record.epoch, {"flights": mark}, 0)
    claim = Claim((Range("flights", "main.silver.flights", mark, at(to)),), token, 0, TARGET, (), NOW)
    return record.after(NOW, f"{consumer} claimed up to {to}", claim=claim)


def committed(record: Record) -> Record:
    assert record.claim is not None
    (one,) = record.claim.ranges
    return record.after(NOW, "committed", claim=None, watermarks={"flights": one.to})


async def test_D10_of_two_dag_runs_that_claim_at_once_one_holds_and_no_claim_is_written_over(ledger: Ledger) -> None:
    await ledger.write(FIRST)
    seen = await ledger.read()
    assert seen is not None
    ended = await asyncio.gather(
        *(ledger.write(claimed(seen, to, name)) for name, to in (("manual", 5), ("by asset", 6))),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in ended) == ["NoneType", "WriteLost"]
    held = await ledger.read()
    assert held is not None
    assert held.claim is not None
    winner = "manual" if ended[0] is None else "by asset"
    assert held.history[-1].what.startswith(winner)


async def test_D10_both_would_have_started_the_same_run() -> None:
    """Where the keep has no compare-and-set, the token is it: it does not know how far either of them looked."""
    ours, theirs = claimed(FIRST, 5, "a").claim, claimed(FIRST, 6, "b").claim
    assert ours is not None
    assert theirs is not None
    assert ours.token == theirs.token


async def test_E16_a_writer_that_lags_never_takes_the_watermark_back(ledger: Ledger) -> None:
    await ledger.write(FIRST)
    lagging = claimed(FIRST, 5, "lags")
    await ledger.write(lagging)
    ahead = committed(lagging)
    await ledger.write(ahead)
    await ledger.write(committed(await _claimed_again(ledger, 9)))
    for late in (lagging, ahead, committed(lagging)):
        with pytest.raises(WriteLost):
            await ledger.write(late)
    now = await ledger.read()
    assert now is not None
    assert now.watermarks == {"flights": at(9)}


async def _claimed_again(ledger: Ledger, to: int) -> Record:
    stored = await ledger.read()
    assert stored is not None
    record = claimed(stored, to, "leads")
    await ledger.write(record)
    return record


async def test_D06_a_declared_reset_is_written_with_a_reason_and_no_old_token_answers(ledger: Ledger) -> None:
    await ledger.write(FIRST)
    reset = repair.adopted(FIRST, "flights", TablePosition(-1, "t2", "m2"), WHY, NOW, "e1")
    await ledger.write(reset)
    kept = await ledger.read()
    assert kept == reset
    assert [one.what for one in await ledger.history(1)] == [
        "adopted flights at version -1, was version 3 by ada: the source was made again"
    ]
    old, new = claimed(FIRST, 4, "a").claim, claimed(reset, 4, "a").claim
    assert old is not None
    assert new is not None
    assert old.token != new.token


@pytest.mark.parametrize(
    "answer",
    [(403, "AccessDenied"), (404, "NoSuchBucket"), (400, "ExpiredToken"), (401, "Unauthorized")],
    ids=lambda answer: answer[1],
)
async def test_B17_a_store_that_says_no_is_never_a_ledger_without_a_record(
    bucket: Bucket, answer: tuple[int, str]
) -> None:
    """No record is a first start; a refusal that looked like one would process everything again."""
    keep = ObjectStoreKeep("s3://lake/bridge")
    await keep.ledger("delays").write(FIRST)
    bucket.refuses = answer
    with pytest.raises(LedgerError, match="s3://lake/bridge/delays"):
        await ObjectStoreKeep("s3://lake/bridge").ledger("delays").read()
    with pytest.raises(LedgerError, match="s3://lake/bridge"):
        await ObjectStoreKeep("s3://lake/bridge").names()
    with pytest.raises(LedgerError):
        await ObjectStoreKeep("s3://lake/bridge").ledger("delays").write(FIRST.after(NOW, "again"))
    bucket.refuses = None
    assert await ObjectStoreKeep("s3://lake/bridge").ledger("delays").read() == FIRST
    assert await ObjectStoreKeep("s3://lake/bridge").ledger("other").read() is None, "an empty list is absent"


@pytest.mark.parametrize("name", ["a b", "50%", "a+b", "é😀", "a%20b", "x#y", "q?z"])
async def test_B18_every_spelling_of_a_folder_is_one_ledger(tmp_path: Path, name: str) -> None:
    url = (tmp_path / name).as_uri()
    await ObjectStoreKeep(url).ledger("delays").write(FIRST)
    for spelling in (url, f"{url}/"):
        assert await ObjectStoreKeep(spelling).ledger("delays").read() == FIRST
    assert (tmp_path / name / "delays").is_dir(), "the folder that was meant, not an encoded one"
    assert await ObjectStoreKeep(url).names() == ["delays"]


async def test_A02_a_claim_survives_the_process_that_wrote_it(ledger: Ledger) -> None:
    """Whoever comes next reads the same claim, token and run and all, and can only follow it."""
    await ledger.write(FIRST)
    record = claimed(FIRST, 5, "first")
    assert record.claim is not None
    await ledger.write(record)
    noted = record.after(NOW, "run 11 started", claim=replace(record.claim, run_id=11))
    await ledger.write(noted)
    found = await ledger.read()
    assert found is not None
    assert found.claim == noted.claim
