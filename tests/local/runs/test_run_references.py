"""Dynamic value references: what resolves, what stays text, what is refused."""

from __future__ import annotations

import pytest

from databricks_bridge.local.runs.references import UnknownReference, check, resolve, time_values

VALUES = {
    "job.id": "7",
    "job.name": "silver",
    "job.parameters.day": "2013-01-01",
    "job.trigger.table_update.updated_tables": '["main.bronze.flights"]',
    "job.trigger.table_update.main.bronze.flights.version": "3",
}


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("{{job.id}}", "7"),
        ("{{ job.id }}/{{job.name}}", "7/silver"),
        ("{{job.parameters.day}}", "2013-01-01"),
        ("{{job.trigger.table_update.updated_tables}}", '["main.bronze.flights"]'),
        ("{{job.trigger.table_update.`main`.`bronze`.`flights`.version}}", "3"),
        ("{{job.trigger.file_arrival.location}}", ""),
        ("{{job.parameters.[day]}}", "2013-01-01"),
        ("{{ job.[parameters].['day'] }}", "2013-01-01"),
        ("{{nothing.known}}", "{{nothing.known}}"),
        ("{{job.id}", "{{job.id}"),
        ('{"ranges": {"a": 1}}', '{"ranges": {"a": 1}}'),
        ("no reference", "no reference"),
    ],
)
def test_resolve(text: str, resolved: str) -> None:
    assert resolve(text, VALUES) == resolved


def test_a_value_is_not_read_again_for_references() -> None:
    assert resolve("{{job.name}}", {"job.name": "{{job.id}}", "job.id": "7"}) == "{{job.id}}"


@pytest.mark.parametrize(
    "text",
    [
        "{{job.parameters.[day]}}",
        "{{job.parameters['day']}}",
        "{{tasks.[first].values.[rows]}}",
        "{{job.trigger.type}}",
        "{{job.trigger.file_arrival.location}}",
        "{{job.trigger.table_update.main.silver.flights.commit_timestamp.iso_datetime}}",
        "{{job.start_time.iso_date}}",
        "{{task.execution_count}}",
        "{{tasks.first.result_state}}",
        "{{tasks.first.error_code}}",
        "{{tasks.first.values.rows}}",
        "{{tasks.first.output.first_row.n}}",
        "{{job.parameters.day}}",
        "{{workspace.url}}",
        "{{some.other}}",
        "plain",
    ],
)
def test_references_that_may_stand_in_a_job(text: str) -> None:
    check(text, job_parameters=frozenset({"day"}), task_keys=frozenset({"first"}))


@pytest.mark.parametrize(
    "text",
    [
        "{{job.ident}}",
        "{{job.parameters.month}}",
        "{{job.start_time.iso}}",
        "{{job.trigger.table_update.main.silver.version}}",
        "{{tasks.second.result_state}}",
        "{{tasks.second.values.rows}}",
        "{{tasks.first.output.alert_state}}",
        "{{task.values}}",
        "{{workspace.name}}",
        "{{input}}",
        "{{backfill.iso_date}}",
    ],
)
def test_references_that_can_never_resolve_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnknownReference, match=text[2:8]):
        check(text, job_parameters=frozenset({"day"}), task_keys=frozenset({"first"}))


def test_times_are_utc() -> None:
    values = time_values("job.start_time", 1_356_998_405_250)
    assert values["job.start_time.iso_date"] == "2013-01-01"
    assert values["job.start_time.iso_datetime"] == "2013-01-01T00:00:05.250000"
    assert values["job.start_time.iso_weekday"] == "2"
    assert values["job.start_time.is_weekday"] == "true"
    assert values["job.start_time.timestamp_ms"] == "1356998405250"
