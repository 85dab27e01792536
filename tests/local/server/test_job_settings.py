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
    "unix cron": ({"schedule": {"quartz_cron_expression": "0 * * * *", "timezone_id": "UTC"}}, "has 5 fields"),
    "no such time zone": (
        {"schedule": {"quartz_cron_expression": "0 0 * * * ?", "timezone_id": "Mars/Base"}},
        "'Mars/Base' is no time zone",
    ),
    "schedule without a time zone": (
        {"schedule": {"quartz_cron_expression": "0 0 * * * ?"}},
        "schedule.timezone_id is missing",
    ),
    "a wildcard in the path": ({"trigger": {"file_arrival": {"url": "/Volumes/a/b/c/2026-*/"}}}, "without wildcards"),
    "a list beside a trigger": ({"trigger": TABLE, "triggers": [TABLE]}, "not trigger and triggers"),
    "two kinds in one of a list": ({"triggers": [{**TABLE, "continuous": {}}]}, "exactly one of"),
    "no kind in one of a list": ({"triggers": [TABLE, {"pause_status": "PAUSED"}]}, "exactly one of"),
    "a bad schedule in a list": (
        {"triggers": [{"schedule": {"quartz_cron_expression": "x", "timezone_id": "UTC"}}]},
        "has 1 fields",
    ),
    "sql condition": ({"trigger": {**TABLE, "sql_condition": {}}}, "trigger.sql_condition is not supported"),
    "model trigger of no kind": ({"trigger": {"model": {"condition": "MODEL_GONE"}}}, "use one of MODEL_CREATED"),
    "aliases without their condition": (
        {"trigger": {"model": {"condition": "MODEL_CREATED", "aliases": ["champion"]}}},
        "only be given with the condition MODEL_ALIAS_SET",
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
    "two task kinds": (
        {"tasks": [notebook_task(condition_task={"op": "EQUAL_TO", "left": "", "right": ""})]},
        "must be of one kind",
    ),
    "condition without an operator": (
        {"tasks": [{"task_key": "a", "condition_task": {"op": "IS", "left": "", "right": ""}}]},
        "condition_task.op must be one of",
    ),
    "condition with a number": (
        {"tasks": [{"task_key": "a", "condition_task": {"op": "EQUAL_TO", "left": 1, "right": ""}}]},
        "condition_task.left must be text",
    ),
    "branch of another name": (
        {"tasks": [notebook_task("a"), notebook_task("b", depends_on=[{"task_key": "a", "outcome": "maybe"}])]},
        "use true or false",
    ),
    "a loop over no list": (
        {"tasks": [{"task_key": "a", "for_each_task": {"inputs": "{}", "task": notebook_task("b")}}]},
        "must be a JSON list",
    ),
    "a loop in a loop": (
        {
            "tasks": [
                {
                    "task_key": "a",
                    "for_each_task": {
                        "inputs": "[]",
                        "task": {"task_key": "b", "for_each_task": {"inputs": "[]", "task": notebook_task("c")}},
                    },
                }
            ]
        },
        "not for_each_task",
    ),
    "input outside of a loop": (
        {
            "tasks": [
                {"task_key": "a", "condition_task": {"op": "EQUAL_TO", "left": "{{input}}", "right": ""}},
            ]
        },
        "input",
    ),
    "a value of a task that is not there": (
        {
            "tasks": [
                {"task_key": "a", "condition_task": {"op": "EQUAL_TO", "left": "{{tasks.x.values.y}}", "right": ""}}
            ]
        },
        "tasks.x.values.y",
    ),
    "relative Python file": ({"tasks": [{"task_key": "a", "spark_python_task": {"python_file": "x.py"}}]}, "absolute"),
    "run job without a job": ({"tasks": [{"task_key": "a", "run_job_task": {}}]}, "run_job_task.job_id must be"),
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
