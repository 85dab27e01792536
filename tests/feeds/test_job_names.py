"""Jobs by name for those who wait a long time: renamed, deleted, made anew, and names that are not unique any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from databricks_bridge.core.errors import InvalidArgument, NotFound, Unavailable
from databricks_bridge.feeds.job_names import JobNames
from databricks_bridge.feeds.run_feed import FeedRuns
from tests.feeds.run_feed_kit import INTERVAL, Lab, feed_lab


@dataclass
class Directory:
    """Jobs by name, as a look-up finds them; the time; and which names were looked up."""

    jobs: dict[str, list[int]] = field(default_factory=dict)
    now: float = 1000.0
    asked: list[str] = field(default_factory=list)
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def find(self, name: str) -> int:
        self.asked.append(name)
        await self.answers.wait()
        ids = self.jobs.get(name, [])
        if not ids:
            raise NotFound(f"no job called {name!r}")
        if len(ids) > 1:
            raise InvalidArgument(f"{len(ids)} jobs are called {name!r}")
        return ids[0]

    def names(self) -> JobNames:
        self.answers.set()
        return JobNames(self.find, lambda: self.now)


async def test_a_name_is_looked_up_once_for_all_who_ask() -> None:
    directory = Directory({"bronze": [7]})
    names = directory.names()
    assert await asyncio.gather(*(names.job_of("bronze") for _ in range(100))) == [7] * 100
    assert directory.asked == ["bronze"]


async def test_a_name_is_looked_up_again_when_what_is_known_is_too_old() -> None:
    directory = Directory({"bronze": [7]})
    names = directory.names()
    assert await names.job_of("bronze") == 7
    directory.jobs["bronze"] = [8]
    directory.now += 30
    assert await names.job_of("bronze", 30) == 7
    assert await names.job_of("bronze", 29) == 8
    assert await names.job_of("bronze") == 8


@pytest.mark.parametrize(
    ("after", "error"), [([], NotFound), ([7, 8], InvalidArgument)], ids=["gone", "of two jobs by now"]
)
async def test_a_check_that_finds_no_such_job_leaves_the_error_to_those_who_wait(
    after: list[int], error: type[Exception]
) -> None:
    directory = Directory({"bronze": [7]})
    names = directory.names()
    await names.job_of("bronze")
    directory.jobs["bronze"] = after
    assert await names.check_one(600) is None
    assert await names.job_of("bronze") == 7
    directory.now += 600
    assert await names.check_one(600) == 7
    with pytest.raises(error):
        await names.job_of("bronze")
    directory.jobs["bronze"] = [9]
    assert await names.job_of("bronze") == 9, "an error is not kept"


async def test_a_check_follows_the_name_to_another_job_and_looks_at_one_name_at_a_time() -> None:
    directory = Directory({"bronze": [7], "silver": [1]})
    names = directory.names()
    await names.job_of("bronze")
    directory.now += 1
    await names.job_of("silver")
    directory.jobs |= {"bronze": [8], "silver": [2]}
    directory.now += 600
    directory.asked.clear()
    assert await names.check_one(600) == 7
    assert directory.asked == ["bronze"]
    assert await names.check_one(600) == 1
    assert await names.check_one(600) is None
    assert [await names.job_of("bronze"), await names.job_of("silver")] == [8, 2]


async def test_a_name_for_which_nobody_asks_is_not_looked_up() -> None:
    directory = Directory({"bronze": [7]})
    names = directory.names()
    await names.job_of("bronze")
    directory.now += 1300
    assert await names.check_one(600) is None
    assert directory.asked == ["bronze"]


async def test_a_check_that_gets_no_answer_keeps_what_is_known() -> None:
    directory = Directory({"bronze": [7]})

    async def down(name: str) -> int:
        raise Unavailable("down")

    names = directory.names()
    await names.job_of("bronze")
    directory.now += 600
    names._find = down
    with pytest.raises(Unavailable):
        await names.check_one(600)
    assert await names.job_of("bronze") == 7


async def test_who_asks_for_a_known_name_does_not_wait_for_the_look_up_of_another() -> None:
    directory = Directory({"bronze": [7], "silver": [1]})
    names = directory.names()
    await names.job_of("bronze")
    directory.answers.clear()
    slow = asyncio.create_task(names.job_of("silver"))
    await asyncio.sleep(0)
    assert await asyncio.wait_for(names.job_of("bronze"), 5) == 7
    directory.answers.set()
    assert await slow == 1


@pytest.fixture
async def lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    async with feed_lab(monkeypatch) as made:
        yield made


async def look(runs: FeedRuns) -> int:
    """A look as a wait by name makes it; the job that it found."""
    job_id = await runs.job_of(None, "bronze")
    assert [run async for run in runs.list_runs(job_id=job_id, start_time_from_ms=0)] == []
    return job_id


async def test_A14_a_job_that_is_renamed_gives_its_name_to_the_next(lab: Lab) -> None:
    """The old job lives on under another name, and its runs are not those that the wait is for."""
    lab.service.job(70, "bronze")
    bell, runs = lab.wait()
    assert await look(runs) == 70
    lab.service.job(70, "bronze_old")
    lab.service.job(71, "bronze")
    async with asyncio.timeout(10):
        while await look(runs) != 71:
            await bell.rest(INTERVAL)
    assert await runs.job_of(None, "bronze_old", 0) == 70


async def test_A14_a_second_job_of_the_name_ends_the_wait_with_both_ids(lab: Lab) -> None:
    lab.service.job(70, "bronze")
    bell, runs = lab.wait()
    assert await look(runs) == 70
    lab.service.job(71, "bronze")

    async def until_it_says_so() -> None:
        while True:
            await look(runs)
            await bell.rest(INTERVAL)

    with pytest.raises(InvalidArgument, match="70, 71"):
        await asyncio.wait_for(until_it_says_so(), 10)
