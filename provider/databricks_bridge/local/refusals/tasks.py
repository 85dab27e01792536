"""Task kinds that are not run, and forms of those that are."""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.refusals.model import HERE, Area, Refusal

_KINDS: dict[str, dict[str, Any]] = {
    "ai_function_task": {},
    "ai_runtime_task": {},
    "alert_task": {"alert_id": "1"},
    "clean_rooms_notebook_task": {"clean_room_name": "room", "notebook_name": "n"},
    "dashboard_task": {"dashboard_id": "1"},
    "dbt_cloud_task": {},
    "dbt_platform_task": {},
    "dbt_task": {"commands": ["dbt run"]},
    "gen_ai_compute_task": {"dl_runtime_image": "x"},
    "pipeline_task": {"pipeline_id": "1"},
    "power_bi_task": {},
    "python_operator_task": {},
    "python_wheel_task": {"package_name": "p", "entry_point": "main"},
    "spark_jar_task": {"main_class_name": "Main"},
    "spark_submit_task": {"parameters": ["x"]},
}
REFUSALS = tuple(
    Refusal(Area.TASK, kind, f"{HERE} does not run {kind}", "SDK", {kind: body}) for kind, body in _KINDS.items()
)
