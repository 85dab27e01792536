"""The runs that a feed remembers: one that is not shown once is not gone."""

from __future__ import annotations

from databricks_bridge.core.errors import NotFound, NotPermitted
from databricks_bridge.feeds.rounds import Bell
from databricks_bridge.feeds.run_book import GONE_SECONDS, Book

GONE = NotFound("Run 11 does not exist.")
RUNNING = {"run_id": 11, "job_id": 7, "start_time": 5, "state": {"life_cycle_state": "RUNNING"}}


def waiting() -> Book:
    """A book for a job with one run at work."""
    book = Book()
    book.await_job(7, Bell(1.0), 0)
    book.take([RUNNING])
    return book


def test_a_run_of_a_job_that_is_not_shown_is_kept_and_gone_only_after_minutes() -> None:
    book = waiting()
    for at in (100.0, 130.0, 99.0 + GONE_SECONDS):
        book.refuse(11, GONE, at)
        assert list(book.jobs[7].open) == [11], "it may end yet, and then it counts"
    book.refuse(11, GONE, 100.0 + GONE_SECONDS)
    assert book.jobs[7].runs == {}
    assert book.missing == {}


def test_the_minutes_are_counted_anew_after_it_was_shown_again() -> None:
    book = waiting()
    book.refuse(11, GONE, 0.0)
    book.take([RUNNING])
    book.refuse(11, GONE, GONE_SECONDS)
    assert list(book.jobs[7].open) == [11]


def test_another_refusal_is_no_sign_that_it_is_gone() -> None:
    book = waiting()
    book.refuse(11, NotPermitted("no"), 0.0)
    book.refuse(11, NotPermitted("no"), GONE_SECONDS)
    assert list(book.jobs[7].open) == [11]


def test_nothing_is_kept_of_a_run_that_no_job_has() -> None:
    book = waiting()
    book.refuse(12, GONE, 0.0)
    assert book.missing == {}
