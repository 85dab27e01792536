"""A store whose listing leaves files out: no record is never inferred from it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from databricks_bridge.ledgers.objects import Found
from tests.ledgers.keeps import in_memory
from tests.ledgers.test_object_store import grown, ledger_of


async def nothing(after: str | None = None) -> AsyncIterator[Found]:
    for found in ():
        yield found


async def test_T13_a_listing_of_nothing_is_no_first_start_where_the_hint_names_a_record() -> None:
    objects = in_memory()
    record = await grown(ledger_of(objects), 5)
    objects.scan = nothing  # type: ignore[method-assign]
    assert await ledger_of(objects).read() == record


async def test_an_empty_store_has_no_record() -> None:
    assert await ledger_of(in_memory()).read() is None


async def test_a_hint_of_what_is_gone_is_no_record() -> None:
    objects = in_memory()
    await objects.real.put("_latest", b"7")
    assert await ledger_of(objects).read() is None
