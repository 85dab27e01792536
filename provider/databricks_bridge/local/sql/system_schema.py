"""The columns of the system tables, in the order of Databricks' references ("Jobs" and "Lineage system tables").

A column of a struct is named as the Jobs API names it where the reference does not say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SYSTEM_CATALOG = "system"
Kind = str | list[Any] | dict[str, Any]
"""A primitive type of Spark by its name, `["array", element]`, `["map", value]` (keys are text), or a struct's fields."""
Schema = Mapping[str, Kind]

_TIMERS: Schema = {"min_time_between_triggers_seconds": "long", "wait_after_last_change_seconds": "long"}
_TRIGGER: Kind = {
    "schedule": {"quartz_cron_expression": "string", "timezone_id": "string"},
    "periodic": {"interval": "long", "unit": "string"},
    "file_arrival": {"url": "string", **_TIMERS},
    "table_update": {"table_names": ["array", "string"], "condition": "string", **_TIMERS},
    "continuous": {"task_retry_mode": "string"},
}
_RULES: Kind = ["array", {"metric": "string", "op": "string", "value": "long"}]
_JOB: Schema = {"account_id": "string", "workspace_id": "string", "job_id": "string"}
_PERIOD: Schema = {"run_id": "string", "period_start_time": "timestamp", "period_end_time": "timestamp"}
_COMPUTE: Schema = {
    "compute_ids": ["array", "string"],
    "compute": ["array", {"type": "string", "cluster_id": "string", "warehouse_id": "string"}],
}
_ENDING: Schema = {"result_state": "string", "termination_code": "string", "termination_type": "string"}

_LAKEFLOW: Mapping[str, Schema] = {
    "jobs": {
        **_JOB,
        "name": "string",
        "description": "string",
        "creator_id": "string",
        "tags": ["map", "string"],
        "change_time": "timestamp",
        "delete_time": "timestamp",
        "run_as": "string",
        "trigger": _TRIGGER,
        "triggers": ["array", _TRIGGER],
        "trigger_type": "string",
        "run_as_user_name": "string",
        "creator_user_name": "string",
        "paused": "boolean",
        "timeout_seconds": "long",
        "health_rules": _RULES,
        "deployment": {"kind": "string", "metadata_file_path": "string"},
        "create_time": "timestamp",
    },
    "job_tasks": {
        **_JOB,
        "task_key": "string",
        "depends_on_keys": ["array", "string"],
        "change_time": "timestamp",
        "delete_time": "timestamp",
        "timeout_seconds": "long",
        "health_rules": _RULES,
    },
    "job_run_timeline": {
        **_JOB,
        **_PERIOD,
        "trigger_type": "string",
        "run_type": "string",
        "run_name": "string",
        **_COMPUTE,
        **_ENDING,
        "job_parameters": ["map", "string"],
        "source_task_run_id": "string",
        "root_task_run_id": "string",
        "setup_duration_seconds": "long",
        "queue_duration_seconds": "long",
        "run_duration_seconds": "long",
        "cleanup_duration_seconds": "long",
        "execution_duration_seconds": "long",
    },
    "job_task_run_timeline": {
        **_JOB,
        **_PERIOD,
        "task_key": "string",
        **_COMPUTE,
        **_ENDING,
        "job_run_id": "string",
        "parent_run_id": "string",
        "setup_duration_seconds": "long",
        "cleanup_duration_seconds": "long",
        "execution_duration_seconds": "long",
    },
}


def _side(side: str) -> Schema:
    names = ("table_full_name", "table_catalog", "table_schema", "table_name", "path", "type")
    return {f"{side}_{name}": "string" for name in names}


_ACCESS: Mapping[str, Schema] = {
    "table_lineage": {
        "account_id": "string",
        "metastore_id": "string",
        "workspace_id": "string",
        "entity_type": "string",
        "entity_id": "string",
        "entity_run_id": "string",
        **_side("source"),
        **_side("target"),
        "created_by": "string",
        "event_time": "timestamp",
        "event_date": "date",
        "record_id": "string",
        "event_id": "string",
        "statement_id": "string",
        "entity_metadata": {
            "job_info": {"job_id": "string", "job_run_id": "string"},
            "dashboard_id": "string",
            "legacy_dashboard_id": "string",
            "notebook_id": "string",
            "sql_query_id": "string",
            "dlt_pipeline_info": {"dlt_pipeline_id": "string", "dlt_update_id": "string"},
        },
    },
}

SCHEMAS: Mapping[str, Mapping[str, Schema]] = {"access": _ACCESS, "lakeflow": _LAKEFLOW}
"""By the names of the schema and of the table in the catalog `system`."""


def ddl(schema: Schema) -> str:
    """The columns as Spark's `from_json` wants them."""
    return ", ".join(f"`{name}` {_sql(kind)}" for name, kind in schema.items())


def spark_json(schema: Schema) -> str:
    """The columns as Spark keeps a schema, in JSON."""
    return json.dumps(_json(dict(schema)))


def _sql(kind: Kind) -> str:
    if isinstance(kind, str):
        return {"long": "bigint"}.get(kind, kind)
    if isinstance(kind, dict):
        return f"struct<{', '.join(f'`{name}`: {_sql(inner)}' for name, inner in kind.items())}>"
    return f"array<{_sql(kind[1])}>" if kind[0] == "array" else f"map<string, {_sql(kind[1])}>"


def _json(kind: Kind) -> Any:
    if isinstance(kind, str):
        return kind
    if isinstance(kind, dict):
        fields = [{"name": name, "type": _json(one), "nullable": True, "metadata": {}} for name, one in kind.items()]
        return {"type": "struct", "fields": fields}
    if kind[0] == "array":
        return {"type": "array", "elementType": _json(kind[1]), "containsNull": True}
    return {"type": "map", "keyType": "string", "valueType": _json(kind[1]), "valueContainsNull": True}
