"""A ledger store that accepts and never answers costs others nothing (T31)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.ledgers.object_store import ObjectStoreKeep, ObjectStoreLedger
from databricks_bridge.ledgers.objects import StoreObjects

MANY = 12


@pytest.fixture
async def hanging() -> AsyncIterator[str]:
    """The URL of a server that accepts and never answers."""
    writers: list[asyncio.StreamWriter] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in writers:
        writer.close()


def ledger_at(url: str, seconds: float = 45.0) -> ObjectStoreLedger:
    def open_store() -> Any:
        from obstore.store import S3Store

        return S3Store(
            "lake",
            endpoint=url,
            region="eu-west-3",
            access_key_id="id",
            secret_access_key="key",
            client_options={"allow_http": True, "timeout": timedelta(seconds=5)},
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=5)},
        )

    return ObjectStoreLedger(
        StoreObjects(open_store, "delays", "s3://lake/delays", seconds=seconds), "s3://lake/delays"
    )


async def test_others_are_answered_meanwhile(hanging: str, tmp_path: Any) -> None:
    reads = [asyncio.create_task(ledger_at(hanging).read()) for _ in range(MANY)]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(4):
        assert await ObjectStoreKeep(f"file://{tmp_path}/ledger").ledger("other").read() is None
        assert await asyncio.to_thread(lambda: 1) == 1
    assert not any(read.done() for read in reads)
    assert sum("store s3://lake" in thread.name for thread in threading.enumerate()) <= 4
    for read in reads:
        read.cancel()
    await asyncio.wait(reads)


async def test_a_call_has_its_own_time_and_says_where(hanging: str) -> None:
    with pytest.raises(LedgerError, match=r"the store at s3://lake/delays gave no answer in 0.1 s"):
        await ledger_at(hanging, seconds=0.1).read()
