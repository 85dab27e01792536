"""A Spark that lacks memory, or answers no more, ends with the runs that it had; the next run has another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from databricks_bridge.local.engine import jvm

from .lab import Lab, until
from .test_lifecycle import alive

pytestmark = pytest.mark.spark

HEAP = "500m"
COLLECTS_ALL = """
(spark.range(400_000_000).selectExpr("concat(uuid(), repeat('x', 1000)) AS u").coalesce(1)
    .selectExpr("collect_list(u)").collect())
"""
ENDLESS = "print('begun', flush=True)\nimport time\nwhile True: time.sleep(0.1)"


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("deployment"), HEAP)
    made.call(made.engine.start())
    yield made
    made.close()


def test_a_jvm_without_memory_and_one_that_does_not_answer_end(small: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = small.begin(ENDLESS)
    until(lambda: "begun" in small.last_log, 60)
    before = small.engine.pids
    lost = small.run(COLLECTS_ALL)
    message = (
        "EngineLost: the Spark JVM ran out of memory (its heap has 500m) and ended while the notebook ran; it is started "
        "again for the next run"
    )
    assert (lost.succeeded, lost.error) == (False, message)
    assert beside.result(30).error == message
    until(lambda: not any(alive(pid) for pid in before[:3]))

    assert small.value("dbutils.notebook.exit(str(spark.range(3).count()))") == "3"
    silent = small.engine.pids[1]
    assert silent not in before
    run = small.begin(ENDLESS)
    until(lambda: "begun" in small.last_log, 60)
    os.kill(silent, signal.SIGSTOP)
    monkeypatch.setattr(jvm, "ANSWER_TIMEOUT", 1.0)
    run.cancel()
    until(lambda: not alive(silent))
