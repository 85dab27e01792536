"""A DAG that is paused while its watcher, or a deferred sensor of it, waits, on real Airflow."""

from __future__ import annotations

import time

import pytest

from databricks_bridge.local.testing import CLAIM_PARAMETERS
from tests.end_to_end.conftest import Bridge, _job, given, until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

TABLE = ("flights_table", "flights_start", "flights_end")
PAUSED_SECONDS = 5.0
"""Five polls."""


def pause(bridge: Bridge, dag_id: str, paused: bool) -> None:
    bridge.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": paused})


def bounds(bridge: Bridge, job: str) -> list[tuple[int, int]]:
    """What each run that succeeded was given: from exclusive, to inclusive."""
    ended = [run for run in bridge.runs("gold", job) if run["state"].get("result_state") == "SUCCESS"]
    return [(int(given(run)["flights_start"]) - 1, int(given(run)["flights_end"])) for run in ended]


def stays(bridge: Bridge, job: str, seconds: float) -> None:
    """Nothing is started for so long."""
    before, until = len(bridge.runs("gold", job)), time.monotonic() + seconds
    while time.monotonic() < until:
        assert len(bridge.runs("gold", job)) == before
        time.sleep(0.5)


def test_E01_what_came_during_a_pause_is_processed_once_after_it(bridge: Bridge) -> None:
    """Not within one poll, but within one more parse of the DAG file: only that makes Airflow start a watcher again."""
    dag_id, job = "paused_watched", "consume-paused-watched"
    _job(bridge.workspaces["gold"], job, parameters=(*CLAIM_PARAMETERS, *TABLE))
    first = bridge.commit(1, "main.paused.flights")
    until(lambda: bounds(bridge, job) == [(-1, first)], "the first range", 240)
    pause(bridge, dag_id, True)
    until(
        lambda: all(run["state"] in ("success", "failed") for run in bridge.airflow.dag_runs(dag_id)),
        "the DAG to be at rest",
        120,
    )
    last = [bridge.commit(1, "main.paused.flights") for _ in range(3)][-1]
    stays(bridge, job, PAUSED_SECONDS)
    pause(bridge, dag_id, False)
    until(lambda: len(bounds(bridge, job)) > 1, "what came during the pause", 240)
    assert bounds(bridge, job) == [(-1, first), (first, last)]
    stays(bridge, job, PAUSED_SECONDS)


def test_E12_a_trigger_that_fires_for_a_paused_dag_moves_nothing_and_the_range_is_given_to_one_run(
    bridge: Bridge,
) -> None:
    """A DAG whose file is gone is the same to its trigger, which Airflow goes on running: it ends at its own deadline."""
    dag_id, job = "paused_deferred", "consume-paused-deferred"
    _job(bridge.workspaces["gold"], job, parameters=(*CLAIM_PARAMETERS, *TABLE))
    bridge.commit(1, "main.deferred.flights")
    first = bridge.start(dag_id)
    assert bridge.wait(dag_id, first) == "success", bridge.log(dag_id, first, "consume")
    waiting = bridge.start(dag_id)

    def state() -> str:
        return str(bridge.airflow.task(dag_id, waiting, "wait")["state"])

    until(lambda: state() == "deferred", "the sensor to be deferred", 240)
    pause(bridge, dag_id, True)
    last = [bridge.commit(1, "main.deferred.flights") for _ in range(2)][-1]
    until(lambda: state() != "deferred", "the trigger to fire", 120)
    stays(bridge, job, PAUSED_SECONDS)
    assert bounds(bridge, job) == [(-1, 0)]
    pause(bridge, dag_id, False)
    assert bridge.wait(dag_id, waiting) == "success", bridge.log(dag_id, waiting, "consume")
    assert bounds(bridge, job) == [(-1, 0), (0, last)]
