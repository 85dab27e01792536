"""What a job may not look like: each case with the words of its refusal."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue
from databricks_bridge.local.server.job_settings import completed


def notebook_task(key: str = "main", **extra: Any) -> dict[str, Any]:
    return {"task_key": key, "notebook_task": {"notebook_path": f"/Shared/{key}"}, **extra}


TABLE = {"table_update": {"table_names": ["a.b.c"]}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "timer under the floor": (
        {"trigger": {"table_update": {"table_names": ["a.b.c"], "min_time_between_triggers_seconds": 59}}},
        "min_time_between_triggers_seconds must be at least 60",
    ),
    "negative timer": (
        {"trigger": {"file_arrival": {"url": "/Volumes/a/b/c/", "wait_after_last_change_seconds": -1}}},
        "wait_after_last_change_seconds must be at least 60",
    ),
    "two ways to start": ({"trigger": TABLE, "continuous": {}}, "not trigger and continuous"),
    "two triggers in one": ({"trigger": {**TABLE, "periodic": {}}}, "exactly one of"),
    "unknown trigger": ({"trigger": {"moon": {}}}, "exactly one of"),
    "cron that would never fire": (
        {"schedule": {"quartz_cron_expression": "0 0 * * * ?", "timezone_id": "UTC"}},
        "has no cron",
    ),
    "two-part table name": ({"trigger": {"table_update": {"table_names": ["b.c"]}}}, "catalog.schema.table"),
    "path outside volumes": ({"trigger": {"file_arrival": {"url": "s3://bucket/x"}}}, "watches /Volumes"),
    "task key twice": ({"tasks": [notebook_task(), notebook_task()]}, "used by more than one task"),
    "cycle": (
        {
            "tasks": [
                notebook_task("a", depends_on=[{"task_key": "b"}]),
                notebook_task("b", depends_on=[{"task_key": "a"}]),
            ]
        },
        "cycle among the tasks a, b",
    ),
    "unknown upstream": ({"tasks": [notebook_task("a", depends_on=[{"task_key": "z"}])]}, "not another task"),
    "no notebook path": ({"tasks": [{"task_key": "a", "notebook_task": {}}]}, "notebook_path is missing"),
    "relative notebook path": ({"tasks": [{"task_key": "a", "notebook_task": {"notebook_path": "x"}}]}, "absolute"),
    "another task kind": ({"tasks": [{"task_key": "a", "spark_jar_task": {}}]}, "not spark_jar_task"),
    "no task kind": ({"tasks": [{"task_key": "a"}]}, "has no task of its own"),
    "run_if": ({"tasks": [notebook_task(run_if="SOMETIMES")]}, "run_if 'SOMETIMES' is not one of"),
    "parameter twice": ({"parameters": [{"name": "a", "default": ""}] * 2}, "declared twice"),
    "parameter name": ({"parameters": [{"name": "a b", "default": ""}]}, "letters, digits"),
    "too many concurrent runs": ({"max_concurrent_runs": 1001}, "from 0 to 1000"),
    "invalid reference": (
        {"tasks": [{"task_key": "a", "notebook_task": {"notebook_path": "/x", "base_parameters": {"p": "{{job.x}}"}}}]},
        "job.x",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_cannot_work_are_refused(case: str) -> None:
    settings, message = REFUSED[case]
    with pytest.raises((InvalidParameterValue, FeatureDisabled), match=message):
        completed(settings)


def test_the_given_settings_are_left_alone() -> None:
    given = {"trigger": {"table": {"table_names": ["a.b.c"]}}, "tasks": [notebook_task()]}
    completed(given)
    assert given == {"trigger": {"table": {"table_names": ["a.b.c"]}}, "tasks": [notebook_task()]}
