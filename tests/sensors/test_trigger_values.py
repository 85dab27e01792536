"""What a fired run's trigger gave to it, in the sensor's answer: over real HTTP, in a worker and after a deferral."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.sensors.fired import WAYS, Fired, answer_of, sensor

LOCATION = "{{job.trigger.file_arrival.location}}"


def answer(fired: Fired, way: str, **job: Any) -> dict[str, Any]:
    """Of a wait for the run that a file fires, after the wait has begun where it is deferred."""
    job_id = fired.job(**job)
    fired.said(job_id, "last_not_triggered")
    if way == "poke":
        fired.land("a.json")
    found = answer_of(sensor(job_id, way), lambda: fired.land("b.json"))
    run = fired.run(job_id)
    assert found["run_id"] == run["run_id"]
    assert (found["job_id"], found["trigger"], found["end_time"]) == (job_id, "FILE_ARRIVAL", run["end_time"])
    return found


@pytest.mark.parametrize("way", WAYS)
def test_what_job_parameters_map_is_told(fired: Fired, way: str) -> None:
    parameters = {
        "where": LOCATION,
        "kind": "{{job.trigger.type}}",
        "tables": "{{job.trigger.table_update.updated_tables}}",
    }
    declared = [{"name": name, "default": text} for name, text in parameters.items()]
    found = answer(fired, way, parameters=declared)
    assert found["job_parameters"] == {"where": fired.url(), "kind": "file_arrival", "tables": ""}
    assert found["trigger_values"] == {"file_arrival_location": fired.url(), "type": "file_arrival"}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_task_maps_is_told(fired: Fired, way: str) -> None:
    found = answer(fired, way, task={"where": LOCATION})
    assert found["job_parameters"] == {}
    assert found["trigger_values"] == {"file_arrival_location": fired.url()}


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_maps_nothing_is_told_of_with_the_mapping_to_add(
    fired: Fired, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.INFO)
    found = answer(fired, way, parameters=[{"name": "region", "default": "NY"}])
    assert (found["job_parameters"], found["trigger_values"]) == ({"region": "NY"}, {})
    mapping = [{"name": "file_arrival_location", "default": LOCATION}]
    assert len([one for one in caplog.messages if "maps nothing" in one and one.endswith(str(mapping))]) == 1


@pytest.mark.parametrize("way", WAYS)
def test_the_run_is_told_where_its_values_cannot_be_asked_for(
    fired: Fired, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    job_id = fired.job(parameters=[{"name": "where", "default": LOCATION}])
    fired.said(job_id, "last_not_triggered")
    fired.land("a.json")
    run = fired.run(job_id)
    with fired.fault(kind="unavailable", path="runs/get"):
        found = answer_of(sensor(job_id, way, timeout=2))
    assert found["run_id"] == run["run_id"]
    assert (found["job_parameters"], found["trigger_values"]) == ({"where": fired.url()}, None)
    assert len([one for one in caplog.messages if "what its trigger gave to it cannot be read" in one]) == 1
