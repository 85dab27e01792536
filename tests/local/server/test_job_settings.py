"""What a job may not look like: each case with the words of its refusal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databricks_bridge.local.runs.starts import starts
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue
from databricks_bridge.local.server.job_settings import completed, merged
from databricks_bridge.local.triggers.file_arrival import decide_file_arrival
from databricks_bridge.local.triggers.outcome import Held
from databricks_bridge.local.triggers.periodic import decide_periodic
from databricks_bridge.local.triggers.settings import FileArrival, JobCompletion, Periodic, parse_start


def notebook_task(key: str = "main", **extra: Any) -> dict[str, Any]:
    return {"task_key": key, "notebook_task": {"notebook_path": f"/Shared/{key}"}, **extra}


TABLE = {"table_update": {"table_names": ["a.b.c"]}}
FILES = {"file_arrival": {"url": "/Volumes/a/b/c/"}}
NOON = {"quartz_cron_expression": "0 0 12 * * ?", "timezone_id": "UTC"}
MODELS = {"model": {"condition": "MODEL_CREATED"}}
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
    "job ids that are no numbers": (
        {"trigger": {"job_completion": {"jobs": [{"workspace_id": "1001", "job_id": "²"}]}}},
        "needs workspace_id and job_id",
    ),
    "job ids of other digits": (
        {"trigger": {"job_completion": {"jobs": [{"workspace_id": "٣", "job_id": "1"}]}}},
        "needs workspace_id and job_id",
    ),
    "job ids that are too large": (
        {"trigger": {"job_completion": {"jobs": [{"workspace_id": "1001", "job_id": "9" * 30}]}}},
        "needs workspace_id and job_id",
    ),
    "job ids one too large": (
        {"triggers": [{"job_completion": {"jobs": [{"workspace_id": "1001", "job_id": 2**63}]}}]},
        "needs workspace_id and job_id",
    ),
    "an interval beyond the calendar": (
        {"trigger": {"periodic": {"interval": 10**30, "unit": "MINUTES"}}},
        "must be at most 2147483647 seconds",
    ),
    "an interval of many weeks": (
        {"trigger": {"periodic": {"interval": 3551, "unit": "WEEKS"}}},
        "must be at most 2147483647 seconds",
    ),
    "a timer beyond the calendar": (
        {"trigger": {"file_arrival": {"url": "/Volumes/a/b/c/", "min_time_between_triggers_seconds": 2**31}}},
        "min_time_between_triggers_seconds must be at most 2147483647",
    ),
    "a wait beyond the calendar": (
        {"trigger": {**MODELS, "model": {**MODELS["model"], "wait_after_last_change_seconds": 10**18}}},
        "wait_after_last_change_seconds must be at most 2147483647",
    ),
    "NUL in a path": ({"trigger": {"file_arrival": {"url": "/Volumes/a/b/c/\0x"}}}, "names that files can have"),
    "NUL in a volume": ({"trigger": {"file_arrival": {"url": "/Volumes/a/b/c\0/"}}}, "names that files can have"),
    "a part that no file can have": (
        {"trigger": {"file_arrival": {"url": "/Volumes/a/b/c/" + "ü" * 150}}},
        "names that files can have",
    ),
    "a path that no file can have": (
        {"trigger": {"file_arrival": {"url": "/Volumes/a/b/c" + "/d" * 1500}}},
        "names that files can have",
    ),
    "a path that is not absolute": ({"trigger": {"file_arrival": {"url": "Volumes/a/b/c/"}}}, "watches /Volumes"),
    "a path with two slashes": ({"trigger": {"file_arrival": {"url": "//Volumes/a/b/c/"}}}, "watches /Volumes"),
    "NUL in a table": ({"trigger": {"table_update": {"table_names": ["a.b.\0"]}}}, "catalog.schema.table"),
    "a slash in a table": ({"trigger": {"table_update": {"table_names": ["a.b.c/d"]}}}, "catalog.schema.table"),
    "a table that no folder can be": (
        {"trigger": {"table_update": {"table_names": ["a.b." + "c" * 250]}}},
        "catalog.schema.table",
    ),
    "NUL in a model": ({"trigger": {"model": {**MODELS["model"], "securable_name": "a.\0"}}}, "catalog.schema.model"),
    "a timeout beyond the calendar": ({"timeout_seconds": 10**400}, "from 0 to 2147483647"),
    "a task's timeout beyond the calendar": (
        {"tasks": [notebook_task(timeout_seconds=2**31)]},
        "timeout_seconds must be a whole number, from 0 to 2147483647",
    ),
    "the old name beside the new": (
        {"trigger": {"table": {"table_names": ["a.b.c"]}, **TABLE}},
        "trigger needs exactly one of",
    ),
    "the old name beside another kind": (
        {"trigger": {"table": {"table_names": ["a.b.c"]}, **FILES}},
        "trigger needs exactly one of",
    ),
    "the old name beside another kind in a list": (
        {"triggers": [{"table": {"table_names": ["a.b.c"]}, "continuous": {}}]},
        "needs exactly one of",
    ),
    "the old name beside the new in a list": (
        {"triggers": [TABLE, {"table": {"table_names": ["a.b.c"]}, **TABLE}]},
        r"triggers\[1\] needs exactly one of",
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
    "another task kind": ({"tasks": [{"task_key": "a", "spark_jar_task": {}}]}, "does not run spark_jar_task"),
    "an unknown task kind": (
        {"tasks": [{"task_key": "a", "moon_task": {}}]},
        "one of notebook_task, .*, not moon_task",
    ),
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


@pytest.mark.parametrize(
    "most",
    [
        {"trigger": {"periodic": {"interval": 3550, "unit": "WEEKS"}}},
        {"trigger": {"file_arrival": {"url": "/Volumes/A/b/c/ü x/", "wait_after_last_change_seconds": 2**31 - 1}}},
        {"trigger": {"job_completion": {"jobs": [{"workspace_id": 1001, "job_id": str(2**63 - 1)}]}}},
    ],
)
def test_the_most_that_is_taken_can_be_looked_at(most: dict[str, Any]) -> None:
    (start,) = starts(completed(most))
    kind = parse_start(start)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    if isinstance(kind, Periodic):
        assert decide_periodic(kind.interval, None, now, now).reason.startswith("the next run is due at 2094")
    if isinstance(kind, FileArrival):
        known = decide_file_arrival(kind, kind.policy, {}, None, now, now).state
        held = decide_file_arrival(kind, kind.policy, {"a": now}, known, now, now)
        assert isinstance(held, Held)
        assert held.until == now + timedelta(seconds=2**31 - 1)
    if isinstance(kind, JobCompletion):
        assert kind.jobs == (("1001", str(2**63 - 1)),)


def test_the_old_name_of_table_updates_is_taken_in_a_list_too() -> None:
    (start,) = completed({"triggers": [{"table": {"table_names": ["a.b.c"]}}]})["triggers"]
    assert start == {
        "pause_status": "UNPAUSED",
        "table_update": {"table_names": ["a.b.c"]},
    }


NULLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "of the job": (
        dict.fromkeys(
            (
                "name", "queue", "parameters", "tasks", "schedule", "trigger", "triggers", "continuous", "run_as", "tags",
                "email_notifications", "webhook_notifications", "timeout_seconds", "max_concurrent_runs", "health",
                "job_clusters", "environments", "format", "something_new",
            )
        ),
        {},
    ),
    "of a task": (
        {
            "tasks": [
                notebook_task(
                    depends_on=None, run_if=None, timeout_seconds=None, max_retries=None, libraries=None,
                    min_retry_interval_millis=None, email_notifications=None, sql_task=None, retry_on_timeout=None,
                )
            ]
        },
        {"tasks": [notebook_task()]},
    ),
    "of a notebook": (
        {
            "tasks": [
                {
                    "task_key": "a",
                    "notebook_task": {"notebook_path": "/x", "source": None, "base_parameters": None, "warehouse_id": None},
                }
            ]
        },
        {"tasks": [{"task_key": "a", "notebook_task": {"notebook_path": "/x"}}]},
    ),
    "of the task of a loop": (
        {
            "tasks": [
                {
                    "task_key": "a",
                    "for_each_task": {"inputs": "[1]", "concurrency": None, "task": notebook_task("b", run_if=None)},
                }
            ]
        },
        {"tasks": [{"task_key": "a", "for_each_task": {"inputs": "[1]", "task": notebook_task("b")}}]},
    ),
    "of a trigger": (
        {"trigger": {**TABLE, "pause_status": None, "table": None, "sql_condition": None, "periodic": None}},
        {"trigger": TABLE},
    ),
    "of a table update": (
        {
            "trigger": {
                "table_update": {
                    "table_names": ["a.b.c"], "condition": None, "min_time_between_triggers_seconds": None,
                    "wait_after_last_change_seconds": None,
                }
            }
        },
        {"trigger": TABLE},
    ),
    "of one of a list": ({"triggers": [{**TABLE, "continuous": None}]}, {"triggers": [TABLE]}),
    "of a schedule": (
        {"schedule": {**NOON, "pause_status": None, "sql_condition": None}},
        {"schedule": NOON},
    ),
    "of a continuous job": ({"continuous": {"pause_status": None, "task_retry_mode": None}}, {"continuous": {}}),
}  # fmt: skip


@pytest.mark.parametrize("case", NULLS)
def test_a_null_is_not_given(case: str) -> None:
    with_nulls, without = NULLS[case]
    assert completed(with_nulls) == completed(without)
    assert merged(completed(without), with_nulls, ()) == merged(completed(without), without, ())


def test_a_null_where_something_must_be_is_missing() -> None:
    with pytest.raises(InvalidParameterValue, match="notebook_path is missing"):
        completed({"tasks": [{"task_key": "a", "notebook_task": {"notebook_path": None}}]})
    with pytest.raises(InvalidParameterValue, match="must map strings to strings"):
        completed(
            {"tasks": [{"task_key": "a", "notebook_task": {"notebook_path": "/x", "base_parameters": {"p": None}}}]}
        )


def test_clusters_without_a_key_are_replaced() -> None:
    with pytest.raises(InvalidParameterValue, match="a job_cluster_key of its own"):
        completed({"job_clusters": [{}]})
    kept = {"job_clusters": [{}]}
    assert merged(kept, {"job_clusters": [{"job_cluster_key": "a"}]}, ())["job_clusters"] == [{"job_cluster_key": "a"}]
    with pytest.raises(InvalidParameterValue, match="task_key"):
        completed(merged(completed({"tasks": [notebook_task()]}), {"tasks": [{"task_key": []}]}, ()))


def test_the_given_settings_are_left_alone() -> None:
    given = {"trigger": {"table": {"table_names": ["a.b.c"]}}, "tasks": [notebook_task()]}
    completed(given)
    assert given == {"trigger": {"table": {"table_names": ["a.b.c"]}}, "tasks": [notebook_task()]}
