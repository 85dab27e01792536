"""A subscription that is defined twice in one process, with a difference, is told of at parse (T37)."""

from __future__ import annotations

import gc
import logging
from datetime import timedelta

import pytest

from databricks_bridge import DeltaTable, Subscription

TABLE = DeltaTable("main.silver.flights", "ops")


@pytest.mark.parametrize(
    "other",
    [
        {"poll_interval": timedelta(seconds=5)},
        {"max_commits_per_run": 7},
        {"sources": DeltaTable("main.silver.flights", "met")},
        {"start": "latest"},
    ],
    ids=["another interval", "another bound", "another connection", "another start"],
)
def test_a_difference_is_told(caplog: pytest.LogCaptureFixture, other: dict[str, object]) -> None:
    one = Subscription("defined_twice", TABLE, start="earliest")
    given = {"sources": TABLE, "start": "earliest"} | other
    with caplog.at_level(logging.WARNING):
        two = Subscription("defined_twice", **given)  # type: ignore[arg-type]
    assert "subscription 'defined_twice' is defined twice, with a difference" in caplog.text
    assert one.name == two.name


def test_the_same_definition_again_or_one_that_is_gone_is_no_difference(caplog: pytest.LogCaptureFixture) -> None:
    one = Subscription("defined_once", TABLE, start="earliest")
    with caplog.at_level(logging.WARNING):
        same = Subscription("defined_once", TABLE, start="earliest")
        del one, same
        gc.collect()
        Subscription("defined_once", TABLE, start="latest")
    assert "defined twice" not in caplog.text
