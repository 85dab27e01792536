"""The object-store keep: what it asks of its store, and what it does when the store is slow, torn, stale or wrong."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from databricks_bridge.core.errors import LedgerError, WriteLost
from databricks_bridge.core.record import Record
from databricks_bridge.ledgers.object_store import CHECK, HINT, ObjectStoreKeep, ObjectStoreLedger, name_of, open_url
from databricks_bridge.ledgers.objects import StoreObjects
from tests.core.builders import NOW, at
from tests.ledgers.keeps import Counted, in_folder, in_memory

FIRST = Record("delays", "consumer", {"flights": at(3)}).after(NOW, "started")


def ledger_of(objects: Counted, **options: int) -> ObjectStoreLedger:
    return ObjectStoreLedger(objects, "memory:/delays", **options)


async def grown(ledger: ObjectStoreLedger, revisions: int) -> Record:
    """The record after so many writes."""
    record = await ledger.read() or Record("delays", "consumer", {})
    while record.revision < revisions:
        record = record.after(NOW, f"write {record.revision + 1}")
        await ledger.write(record)
    return record


async def keys(objects: Counted) -> list[str]:
    return sorted([found.key async for found in objects.real.scan()])


async def test_each_transition_is_one_file_with_the_whole_record() -> None:
    objects = in_memory()
    record = await grown(ledger_of(objects), 2)
    assert await keys(objects) == ["0" * 19 + "1.json", "0" * 19 + "2.json", HINT, CHECK]
    assert json.loads(await objects.real.get(name_of(2)) or b"")["record"] == record.to_json()


async def test_reading_costs_one_listing_and_two_reads_however_long_the_log_is() -> None:
    objects = in_memory()
    await grown(ledger_of(objects), 30)
    objects.calls.clear()
    await ledger_of(objects).read()
    assert objects.calls == [f"get {HINT}", f"scan {name_of(29)}", f"get {name_of(30)}"]


async def test_time_is_the_stores_own(tmp_path: Path) -> None:
    ledger = in_folder(tmp_path)
    before = datetime.now(UTC) - timedelta(seconds=1)
    await ledger.write(FIRST)
    (entry,) = await ledger.history(1)
    assert entry.at != NOW
    assert before <= entry.at <= datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.parametrize("hint", [b"1", b"7", b"", b"0", b"-3", b"junk", b"9" * 21, b"999999"])
async def test_a_hint_that_is_stale_or_wrong_costs_a_listing_and_nothing_else(hint: bytes) -> None:
    objects = in_memory()
    record = await grown(ledger_of(objects), 9)
    await objects.real.put(HINT, hint)
    assert await ledger_of(objects).read() == record
    await ledger_of(objects).write(record.after(NOW, "next"))


async def test_a_missing_hint_too() -> None:
    objects = in_memory()
    record = await grown(ledger_of(objects), 9)
    await objects.real.delete([HINT])
    assert await ledger_of(objects).read() == record


def lose_the_answer(objects: Counted, key: str) -> None:
    """The put happens, and the caller hears of an error."""

    def after(call: str) -> None:
        if call == f"create {key}":
            objects.after = lambda call: None
            raise LedgerError("the connection was reset")

    objects.after = after


async def test_an_answer_lost_after_the_put_is_a_success() -> None:
    objects = in_memory()
    ledger = ledger_of(objects)
    lose_the_answer(objects, name_of(1))
    await ledger.write(FIRST)
    assert await ledger.read() == FIRST


async def test_a_put_that_never_happened_is_an_error_and_can_be_tried_again() -> None:
    objects = in_memory()
    ledger = ledger_of(objects)

    def refuse(call: str) -> None:
        if call == f"create {name_of(1)}":
            raise LedgerError("no route")

    objects.before = refuse
    with pytest.raises(LedgerError, match="no route"):
        await ledger.write(FIRST)
    assert await ledger.read() is None
    objects.before = lambda call: None
    await ledger.write(FIRST)


async def write_between(objects: Counted, other: Record) -> None:
    """Another writer comes between our look and our put."""

    def before(call: str) -> None:
        if call == f"create {name_of(other.revision)}":
            objects.before = lambda call: None
            data = json.dumps({"nonce": "theirs", "record": other.to_json()}).encode()
            # the store is in memory: a put from here is done before ours goes on
            import obstore

            obstore.put(objects.real._store, f"delays/{name_of(other.revision)}", data, mode="create")

    objects.before = before


async def test_a_writer_that_came_between_wins() -> None:
    objects = in_memory()
    ledger = ledger_of(objects)
    await ledger.write(FIRST)
    theirs = FIRST.after(NOW, "theirs")
    await write_between(objects, theirs)
    with pytest.raises(WriteLost):
        await ledger.write(FIRST.after(NOW, "ours"))
    assert await ledger.read() == theirs


async def test_a_lost_answer_to_a_put_that_another_had_won_is_a_lost_write() -> None:
    objects = in_memory()
    ledger = ledger_of(objects)
    await ledger.write(FIRST)
    theirs = FIRST.after(NOW, "theirs")
    await write_between(objects, theirs)
    first = objects.before

    def before(call: str) -> None:
        first(call)
        if call == f"create {name_of(2)}":
            raise LedgerError("time-out")

    objects.before = before
    with pytest.raises(WriteLost):
        await ledger.write(FIRST.after(NOW, "ours"))


@pytest.mark.parametrize("torn", [b"", b'{"nonce": "x", "rec', b"[]", b'{"nonce": "x"}'])
async def test_a_half_written_file_is_an_error_that_says_what_to_do(tmp_path: Path, torn: bytes) -> None:
    ledger = in_folder(tmp_path)

    async def no_pause(seconds: float) -> None:
        return None

    ledger._sleep = no_pause
    await ledger.write(FIRST)
    (tmp_path / "delays" / name_of(2)).write_bytes(torn)
    with pytest.raises(
        LedgerError, match=rf"{name_of(2)} in the ledger at .* is not whole .* leave it there and try again"
    ):
        await ledger.read()
    with pytest.raises(LedgerError, match="is not whole"):
        await ledger.write(FIRST.after(NOW, "again"))
    (tmp_path / "delays" / name_of(2)).unlink()
    assert await in_folder(tmp_path).read() == FIRST


async def test_a_temporary_file_of_a_local_put_that_died_is_not_seen(tmp_path: Path) -> None:
    ledger = in_folder(tmp_path)
    await ledger.write(FIRST)
    (tmp_path / "delays" / f"{name_of(2)}#1").write_bytes(b"half")
    assert await ledger.read() == FIRST
    await ledger.write(FIRST.after(NOW, "again"))


class Careless(StoreObjects):
    """A store that ignores put-if-absent, as some S3 look-alikes do."""

    async def create(self, key: str, data: bytes) -> None:
        await self.put(key, data)


async def test_a_store_that_ignores_put_if_absent_is_refused_at_the_first_use() -> None:
    store = MemoryStore()
    ledger = ObjectStoreLedger(Careless(lambda: store, "delays", "memory:/delays"), "memory:/delays")
    with pytest.raises(LedgerError, match=r"took a second put-if-absent of one key.*conditional writes"):
        await ledger.write(FIRST)
    assert await ledger.read() is None


async def test_the_store_is_checked_once_for_each_process() -> None:
    objects = in_memory()
    await grown(ledger_of(objects), 3)
    assert objects.calls.count(f"create {CHECK}") == 2
    objects.calls.clear()
    await grown(ledger_of(objects), 5)
    assert objects.calls.count(f"create {CHECK}") == 1


async def test_only_the_newest_are_kept() -> None:
    objects = in_memory()
    ledger = ledger_of(objects, kept=10, prune_every=5)
    record = await grown(ledger, 30)
    assert [key for key in await keys(objects) if key.startswith("0")] == [name_of(one) for one in range(21, 31)]
    assert await ledger.read() == record
    assert [one.revision for one in await ledger.history(99)] == list(range(21, 31))


@pytest.mark.parametrize("survives", range(6))
async def test_pruning_may_die_anywhere(survives: int) -> None:
    objects = in_memory()
    record = await grown(ledger_of(objects, kept=5, prune_every=100), 9)
    deleted: list[str] = []

    def die(call: str) -> None:
        if call.startswith("delete"):
            if len(deleted) == survives:
                raise LedgerError("the process died")
            deleted.append(call)

    objects.before = die
    last = record.after(NOW, "the tenth")
    await ledger_of(objects, kept=5, prune_every=10).write(last)
    left = [key for key in await keys(objects) if key.startswith("0")]
    assert left == [name_of(one) for one in range(min(survives, 5) + 1, 11)], "a suffix without a gap"
    assert await ledger_of(objects).read() == last


async def test_a_failing_hint_does_not_fail_the_write() -> None:
    objects = in_memory()

    def refuse(call: str) -> None:
        if call == f"put {HINT}":
            raise LedgerError("denied")

    objects.before = refuse
    await ledger_of(objects).write(FIRST)
    assert await ledger_of(objects).read() == FIRST


async def test_a_writer_that_slept_while_its_number_was_pruned_has_not_written() -> None:
    objects = in_memory()
    await grown(ledger_of(objects), 1)
    sleeper = ledger_of(objects, kept=4)
    stale = (await sleeper.read() or FIRST).after(NOW, "stale")
    woken = False

    def sleep(call: str) -> None:
        nonlocal woken
        if call == f"create {name_of(2)}" and not woken:
            woken = True
            run_elsewhere(grown(ledger_of(objects, kept=4, prune_every=1), 9))

    objects.before = sleep
    with pytest.raises(WriteLost):
        await sleeper.write(stale)
    newest = await ledger_of(objects).read()
    assert newest is not None
    assert newest.revision == 9


def run_elsewhere(work: object) -> None:
    """Runs a coroutine to its end in a thread of its own, from inside a running loop."""
    thread = threading.Thread(target=lambda: asyncio.run(work))  # type: ignore[arg-type]
    thread.start()
    thread.join()


async def test_writers_that_race_win_one_revision_each(tmp_path: Path) -> None:
    """Each of four threads adds its own marks; in the end all are there, in one line of revisions."""
    await in_folder(tmp_path).write(FIRST)
    wins: list[int] = []
    losses: list[int] = []

    async def add(thread: int) -> None:
        ledger = in_folder(tmp_path)
        left = 10
        while left:
            record = await ledger.read()
            assert record is not None
            marks = {**record.watermarks, f"s{thread}_{left}": at(left)}
            try:
                await ledger.write(record.after(NOW, f"{thread}: {left}", watermarks=marks))
            except WriteLost:
                losses.append(thread)
                continue
            wins.append(thread)
            left -= 1

    threads = [threading.Thread(target=lambda n=n: asyncio.run(add(n))) for n in range(4)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    final = await in_folder(tmp_path).read()
    assert final is not None
    assert final.revision == 1 + 40
    assert len(final.watermarks) == 1 + 40
    assert len(wins) == 40
    assert [one.revision for one in await in_folder(tmp_path).history(99)] == list(range(1, 42))


async def test_a_keep_lists_the_subscriptions_that_have_a_record(tmp_path: Path) -> None:
    keep = ObjectStoreKeep(tmp_path.as_uri() + "/a ledger/")
    assert await keep.names() == []
    await keep.ledger("delays").write(FIRST)
    (tmp_path / "a ledger" / "stranger").mkdir()
    assert await keep.names() == ["delays"]


async def test_a_folder_that_cannot_be_opened_is_a_ledger_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="cannot open the store at file:"):
        await ObjectStoreKeep((tmp_path / "file" / "deep").as_uri()).ledger("delays").read()


WRITER = """
import asyncio, sys
from databricks_bridge.core.errors import WriteLost
from databricks_bridge.ledgers.object_store import ObjectStoreKeep
from tests.core.builders import NOW, at

async def write(url, name):
    ledger, mine = ObjectStoreKeep(url).ledger("delays"), 0
    while True:
        record = await ledger.read()
        marks = {**record.watermarks, name: at(mine)}
        try:
            await ledger.write(record.after(NOW, f"{name} {mine}", watermarks=marks))
        except WriteLost:
            continue
        print(mine, flush=True)
        mine += 1

asyncio.run(write(*sys.argv[1:]))
"""


def test_writers_that_are_killed_lose_nothing_that_they_were_told_is_written(tmp_path: Path) -> None:
    """Three processes write as fast as they can, and are killed; what each was told last is in the record."""
    asyncio.run(in_folder(tmp_path).write(FIRST))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path.as_uri(), name],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        for name in ("a", "b", "c")
    ]
    told: dict[str, int] = {}
    for name, writer in zip("abc", writers, strict=True):
        assert writer.stdout is not None
        for _ in range(20):
            told[name] = int(writer.stdout.readline())
        writer.kill()
        told[name] = max([told[name], *(int(line) for line in writer.stdout.read().split())])
        writer.wait()
    record = asyncio.run(in_folder(tmp_path).read())
    assert record is not None
    for name, version in told.items():
        mark = record.watermarks[name]
        # one more may have been written, of which the process had no time to tell
        assert mark in (at(version), at(version + 1))
    entries = asyncio.run(in_folder(tmp_path).history(10_000))
    revisions = [one.revision for one in entries]
    assert revisions == list(range(revisions[0], record.revision + 1))
    asyncio.run(in_folder(tmp_path).write(record.after(NOW, "after all")))


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("abfss://box@acct.dfs.core.windows.net/a/b", "https://acct.blob.core.windows.net"),
        ("abfss://box@acct.dfs.core.chinacloudapi.cn/a/b", "https://acct.blob.core.chinacloudapi.cn"),
        ("s3://box/a/b", "https://s3.cn-northwest-1.amazonaws.com.cn"),
    ],
)
def test_a_ledger_is_opened_in_the_cloud_that_its_address_names(
    monkeypatch: pytest.MonkeyPatch, url: str, endpoint: str
) -> None:
    monkeypatch.setenv("AWS_REGION", "cn-northwest-1")
    store = open_url(url)
    assert store.config["endpoint"] == endpoint
    assert store.prefix == "a/b"
