"""The state file: transactions, counters, and files that are not ours."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from databricks_bridge.local.store import Store, StoreError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def lose(store: Store) -> None:
    with store.transaction():
        store.add_job("ops", {"name": "lost"}, 0)
        raise RuntimeError


def lose_inside(store: Store) -> None:
    with store.transaction():
        with store.transaction():
            store.add_job("ops", {"name": "lost"}, 0)
        raise RuntimeError


@pytest.mark.parametrize("transaction", [lose, lose_inside])
def test_a_transaction_that_fails_leaves_nothing(store: Store, transaction: Callable[[Store], None]) -> None:
    with pytest.raises(RuntimeError):
        transaction(store)
    assert store.jobs() == []


def test_ids_are_not_given_twice_not_even_after_a_delete_and_a_restart(tmp_path: Path) -> None:
    first = Store(tmp_path / "store.sqlite")
    job = first.add_job("ops", {"name": "a"}, 0)
    first.remove_job(job.job_id, at=2)
    first.close()
    assert Store(tmp_path / "store.sqlite").add_job("ops", {"name": "b"}, 0).job_id == job.job_id + 1


def test_ids_that_are_given_together_are_given_to_nobody_else(store: Store) -> None:
    first = store.next_run_id()
    assert list(store.next_run_ids(3)) == [first + 1, first + 2, first + 3]
    assert list(store.next_run_ids(0)) == []
    assert store.next_run_id() == first + 4


def test_a_file_from_before_an_index_gets_it(tmp_path: Path) -> None:
    for _ in range(2):
        Store(tmp_path / "store.sqlite").close()
        with sqlite3.connect(tmp_path / "store.sqlite") as db:
            db.execute("DROP INDEX attempts_by_parent")  # which fails where there is none


def test_threads_take_turns(store: Store) -> None:
    def add() -> None:
        for _ in range(20):
            store.add_job("ops", {"name": "j"}, 0)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({job.job_id for job in store.jobs("ops")}) == 80


def test_the_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    Store(tmp_path / "store.sqlite")
    assert (tmp_path / "store.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_file_of_another_release_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.sqlite") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="written by another release"):
        Store(tmp_path / "store.sqlite")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_text("not a database, and long enough to be looked at as one" * 20)
    with pytest.raises(StoreError, match="move it away"):
        Store(tmp_path / "store.sqlite")
