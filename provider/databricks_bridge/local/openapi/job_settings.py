"""The settings of a job as jobs/create takes them: tasks of each kind, and all that starts a job by itself."""

from __future__ import annotations

from databricks_bridge.local.openapi.model import (
    Schema,
    anything,
    fields,
    flag,
    listing,
    one_of,
    ref,
    text,
    texts_by_name,
    whole,
)
from databricks_bridge.local.request_fields.schema import schema_of
from databricks_bridge.local.runs.plan import RUN_IF
from databricks_bridge.local.runs.work import OPERATORS
from databricks_bridge.local.triggers.model import EVENTS

_TASK_KEY = text(pattern="^[A-Za-z0-9_-]{1,100}$", examples=["main"])
_ABSOLUTE = text(pattern="^/[A-Za-z0-9_]{1,20}$", examples=["/Shared/main"])
_PLAIN = text(pattern="^[A-Za-z0-9 _.-]{0,30}$")
_TEXTS = {"type": "object", "additionalProperties": _PLAIN}
_TIMER = whole(60, 10**6)
_PAUSE = one_of("PAUSED", "UNPAUSED")
_TABLE = text(pattern="^[a-z]{1,9}\\.[a-z]{1,9}\\.[a-z]{1,9}$", examples=["main.silver.flights"])
_URL = text(pattern="^/Volumes/[a-z]{1,9}/[a-z]{1,9}/[a-z]{1,9}/$", examples=["/Volumes/main/landing/flights/"])
_CRON = text(
    pattern="^0 [0-5]?[0-9] (1?[0-9]|2[0-3]) \\* \\* \\?$",
    description="Quartz cron with seconds; what the pattern leaves out (lists, steps, L, W, #) is served too.",
    examples=["0 0 7 * * ?"],
)


def _kinds() -> dict[str, Schema]:
    sql_file = fields("path", path=_ABSOLUTE, source=one_of("WORKSPACE"))
    return {
        "notebook_task": fields(
            "notebook_path", notebook_path=_ABSOLUTE, base_parameters=_TEXTS, source=one_of("WORKSPACE")
        ),
        "spark_python_task": fields(
            "python_file", python_file=_ABSOLUTE, parameters=listing(_PLAIN), source=one_of("WORKSPACE")
        ),
        "sql_task": fields("file", "warehouse_id", file=sql_file, warehouse_id=text(), parameters=_TEXTS),
        "condition_task": fields("op", "left", "right", op=one_of(*OPERATORS), left=_PLAIN, right=_PLAIN),
        "run_job_task": fields("job_id", job_id=whole(1), job_parameters=_TEXTS),
        "for_each_task": fields(
            "inputs",
            "task",
            inputs=text(pattern="^\\[[0-9](,[0-9]){0,3}\\]$", examples=["[1, 2]"]),
            concurrency=whole(1, 100),
            task={**ref("Task"), "description": "A task without depends_on, and no for_each_task."},
        ),
    }


def task() -> Schema:
    """One task: of exactly one kind."""
    kinds = _kinds()
    common = {
        "task_key": _TASK_KEY,
        "depends_on": listing(fields("task_key", task_key=_TASK_KEY, outcome=one_of("true", "false"))),
        "run_if": one_of(*RUN_IF),
        "timeout_seconds": whole(0, 10**6),
        "max_retries": whole(-1, 10),
        "min_retry_interval_millis": whole(0, 10**6),
        "retry_on_timeout": flag(),
        "description": text(),
    }
    return {
        "type": "object",
        "properties": {**common, **kinds},
        "required": ["task_key"],
        "oneOf": [{"required": [kind]} for kind in kinds],
    }


def simple_task() -> Schema:
    """A task that can be made up: one notebook, which depends on nothing."""
    notebook = fields("notebook_path", notebook_path=_ABSOLUTE, base_parameters=_TEXTS)
    return {
        **fields("task_key", "notebook_task", task_key=_TASK_KEY, notebook_task=notebook, max_retries=whole(-1, 10)),
        "additionalProperties": False,
    }


def tasks() -> Schema:
    """One notebook alone, or any tasks."""
    return {
        "type": "array",
        "maxItems": 3,
        "anyOf": [{"items": simple_task(), "maxItems": 1}, {"items": ref("Task")}],
    }


def trigger() -> Schema:
    """What a trigger waits for: exactly one kind."""
    timers = {"min_time_between_triggers_seconds": _TIMER, "wait_after_last_change_seconds": _TIMER}
    upstream = fields(
        "workspace_id", "job_id", workspace_id=text(pattern="^[0-9]{1,9}$"), job_id=text(pattern="^[0-9]{1,9}$")
    )
    kinds = {
        "file_arrival": fields("url", url=_URL, **timers),
        "table_update": fields(
            "table_names",
            table_names=listing(_TABLE, 1, 10),
            condition=one_of("ANY_UPDATED", "ALL_UPDATED"),
            **timers,
        ),
        "periodic": fields(
            "interval", "unit", interval=whole(1, 10**4), unit=one_of("MINUTES", "HOURS", "DAYS", "WEEKS")
        ),
        "job_completion": fields("jobs", jobs=listing(upstream, 1, 10), if_status=one_of("SUCCESS", "FAILED", "DONE")),
        "model": fields("condition", condition=one_of(*EVENTS), securable_name=_TABLE, **timers),
    }
    return {
        "type": "object",
        "properties": {"pause_status": _PAUSE},
        "oneOf": [fields(kind, **{kind: schema}) for kind, schema in kinds.items()],
    }


def settings() -> dict[str, Schema]:
    """The arguments of jobs/create, and `new_settings` of update and reset."""
    cron = {"quartz_cron_expression": _CRON, "timezone_id": one_of("UTC", "Europe/Zurich", "America/Los_Angeles")}
    parameter = fields(
        "name", "default", name=text(pattern="^[A-Za-z0-9_.-]{1,20}$", examples=["date"]), default=_PLAIN
    )
    continuous = fields(pause_status=_PAUSE, task_retry_mode=one_of("NEVER", "ON_FAILURE"))
    return {
        "name": text(maxLength=4096, examples=["bronze-flights"]),
        "tasks": tasks(),
        "parameters": {**listing(parameter), "maxItems": 1},
        "trigger": trigger(),
        "schedule": {**fields(*cron, **cron, pause_status=_PAUSE)},
        "continuous": continuous,
        "triggers": listing(trigger()),
        "max_concurrent_runs": whole(0, 1000),
        "timeout_seconds": whole(0, 10**6),
        "queue": fields(enabled=flag()),
        "tags": texts_by_name(),
        "description": text(),
        "email_notifications": schema_of("jobs.JobEmailNotifications"),
        "webhook_notifications": schema_of("jobs.WebhookNotifications"),
        "notification_settings": schema_of("jobs.JobNotificationSettings"),
        "health": schema_of("jobs.JobsHealthRules"),
        "job_clusters": listing(anything()),
        "run_as": fields(user_name=text()),
    }
