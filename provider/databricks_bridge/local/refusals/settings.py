"""Settings of jobs, tasks and runs that are neither followed nor kept: refused by name.

What Databricks itself refuses is not in this list, though it is refused here too.
"""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.refusals.model import HERE, Area, refusals

_NOTEBOOK = {"task_key": "main", "notebook_task": {"notebook_path": "/Shared/main"}}
_FROM_GIT = {"notebook_path": "main", "source": "GIT"}
_GIT = {"git_url": "https://github.com/acme/flights", "git_provider": "gitHub", "git_branch": "main"}
_CRON = {"quartz_cron_expression": "0 0 12 * * ?", "timezone_id": "UTC"}
RUN_JOB_PARAMETERS = (
    "dbt_commands",
    "jar_params",
    "notebook_params",
    "pipeline_params",
    "python_named_params",
    "python_params",
    "spark_submit_params",
    "sql_params",
)


def _job(*tasks: dict[str, Any], **settings: Any) -> tuple[str, dict[str, Any]]:
    return "create", {"name": "refused", "tasks": list(tasks) or [_NOTEBOOK], **settings}


def _sql(**body: Any) -> dict[str, Any]:
    return {"task_key": "main", "sql_task": {"warehouse_id": "w", **body}}


REFUSALS = refusals(
    Area.SETTING,
    {
        "permissions": (
            "The local workspace keeps the permissions of jobs, directories, notebooks, files and repos",
            "SDK",
            ("PUT permissions", {"access_control_list": []}),
        ),
        "git_source": (f"{HERE} runs no tasks from a Git repository (git_source)", "SDK", _job(git_source=_GIT)),
        "source: GIT": (
            f"{HERE} runs no task of source GIT",
            "SDK",
            _job({"task_key": "main", "notebook_task": _FROM_GIT}),
        ),
        "jobs/create in the form of API 2.0": (
            "jobs/create takes a list of tasks; the form of API 2.0, with one task at the top, is not served by the local "
            "workspace",
            "DOC",
            ("create", {"name": "refused", "notebook_task": {"notebook_path": "/Shared/main"}}),
        ),
        "environment_variables": (
            f"{HERE} does not set environment_variables",
            "SDK",
            _job(environment_variables=[{"environment_variables_key": "e"}]),
        ),
        "environment_variables_key": (
            f"{HERE} does not set environment_variables of tasks (environment_variables_key)",
            "SDK",
            _job({**_NOTEBOOK, "environment_variables_key": "e"}),
        ),
        "compute.hardware_accelerator": (
            f"{HERE} has no hardware accelerators (compute)",
            "SDK",
            _job({**_NOTEBOOK, "compute": {"hardware_accelerator": "GPU_1xA10"}}),
        ),
        "duration_target": (f"{HERE} does not follow duration_target", "SDK", _job(duration_target="60s")),
        "continuous.maintenance_window": (
            f"{HERE} does not follow maintenance_window",
            "SDK",
            _job(continuous={"maintenance_window": {"start_hour": 2}}),
        ),
        "schedule.sql_condition": (
            "schedule.sql_condition is not supported by the local workspace",
            "SDK",
            _job(schedule={**_CRON, "sql_condition": {}}),
        ),
        "trigger.sql_condition": (
            "trigger.sql_condition is not supported by the local workspace",
            "SDK",
            _job(trigger={"table_update": {"table_names": ["a.b.c"]}, "sql_condition": {}}),
        ),
        "run_as.group_name": (f"{HERE} does not run jobs as a group", "SDK", _job(run_as={"group_name": "analysts"})),
        "sql_task.query": (f"{HERE} runs sql_task.file, not query", "SDK", _job(_sql(query={"query_id": "1"}))),
        "sql_task.dashboard": (
            f"{HERE} runs sql_task.file, not dashboard",
            "SDK",
            _job(_sql(dashboard={"dashboard_id": "1"})),
        ),
        "sql_task.alert": (f"{HERE} runs sql_task.file, not alert", "SDK", _job(_sql(alert={"alert_id": "1"}))),
        **{
            f"run_job_task.{name}": (
                f"{HERE} hands job_parameters to the job of a run_job_task, not {name}",
                "SDK",
                _job({"task_key": "main", "run_job_task": {"job_id": 1, name: value}}),
            )
            for name, value in (
                (name, {"a": "b"} if name in ("notebook_params", "python_named_params", "sql_params") else ["a"])
                for name in RUN_JOB_PARAMETERS
                if name != "pipeline_params"
            )
        },
        "run_job_task.pipeline_params": (
            f"{HERE} hands job_parameters to the job of a run_job_task, not pipeline_params",
            "SDK",
            _job({"task_key": "main", "run_job_task": {"job_id": 1, "pipeline_params": {"full_refresh": True}}}),
        ),
        **{
            f"Unity Catalog: {name}": (
                f"{HERE} does not change {name} of what is in Unity Catalog",
                "SDK",
                ("PATCH", {name: value}),
            )
            for name, value in (
                ("new_name", "other"),
                ("managed_encryption_settings", {"azure_key_vault_key_id": "k"}),
                ("custom_max_retention_hours", 24),
                ("options", {"a": "b"}),
                ("isolation_mode", "ISOLATED"),
                ("enable_predictive_optimization", "DISABLE"),
            )
        },
        **{
            f"Unity Catalog: {name} of what is new": (
                f"{HERE} has managed catalogs of its own: {why} ({name})",
                "SDK",
                body,
            )
            for name, why, body in (
                ("connection_name", "it reads no other database", ("POST", {"connection_name": "postgres"})),
                ("options", "it reads no other database", ("POST", {"options": {"database": "db"}})),
                ("provider_name", "a shared one is made by the lab file", ("POST", {"provider_name": "acme"})),
                ("share_name", "a shared one is made by the lab file", ("POST", {"share_name": "flights"})),
                (
                    "managed_encryption_settings",
                    "it encrypts nothing",
                    ("POST", {"managed_encryption_settings": {"azure_key_vault_key_id": "k"}}),
                ),
                (
                    "custom_max_retention_hours",
                    "it keeps what VACUUM leaves",
                    ("POST", {"custom_max_retention_hours": 24}),
                ),
            )
        },
    },
)
