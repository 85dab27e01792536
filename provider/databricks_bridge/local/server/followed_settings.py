"""Settings that would be kept and not followed are refused here, and so are keys of what is not there. Pure.

Databricks refuses a key that names nothing, and what a continuous job cannot have; the rest it has and this workspace has not
(`refusals/settings.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.refusals.settings import RUN_JOB_PARAMETERS
from databricks_bridge.local.runs.starts import starts
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue

Settings = Mapping[str, Any]


def refuse_of_job(settings: Settings) -> None:
    """Raises FeatureDisabled for a setting of the job that is not followed."""
    for name in ("git_source", "environment_variables", "duration_target"):
        if name in settings:
            raise FeatureDisabled(words(Area.SETTING, name))
    if "group_name" in settings.get("run_as", {}):
        raise FeatureDisabled(words(Area.SETTING, "run_as.group_name"))


def refuse_of_task(task: Settings) -> None:
    """Raises FeatureDisabled for a setting of one task that is not followed. Kinds and fields have been checked before."""
    key = task["task_key"]
    for name, refused in (
        ("environment_variables_key", "environment_variables_key"),
        ("compute", "compute.hardware_accelerator"),
    ):
        if name in task:
            raise FeatureDisabled(f"Task {key}: {words(Area.SETTING, refused)}")
    for name in RUN_JOB_PARAMETERS:
        if task.get("run_job_task", {}).get(name):
            raise FeatureDisabled(f"Task {key}: {words(Area.SETTING, f'run_job_task.{name}')}")


def refuse_keys_of_nothing(settings: Settings) -> None:
    """Raises InvalidParameterValue for a job_cluster_key or environment_key that is not defined, or is defined twice."""
    for field, key_name in (("job_clusters", "job_cluster_key"), ("environments", "environment_key")):
        defined = [item.get(key_name) for item in settings.get(field, ())]
        for key in defined:
            if not isinstance(key, str) or defined.count(key) > 1:
                raise InvalidParameterValue(f"{field}: each needs a {key_name} of its own, not {key!r}")
        for task in _all_tasks(settings):
            if key_name in task and task[key_name] not in defined:
                what = "Job cluster" if field == "job_clusters" else "Environment"
                raise InvalidParameterValue(
                    f"Task {task['task_key']}: {what} '{task[key_name]}' is not defined in field '{field}'."
                )


def refuse_in_continuous(settings: Settings) -> None:
    """Raises InvalidParameterValue for what a continuous job cannot have, FeatureDisabled for its maintenance window."""
    continuous = next((start["continuous"] for start in starts(settings) if "continuous" in start), None)
    if continuous is None:
        return
    if "maintenance_window" in continuous:
        raise FeatureDisabled(words(Area.SETTING, "continuous.maintenance_window"))
    if settings["max_concurrent_runs"] > 1:
        raise InvalidParameterValue("A continuous job can have one run at a time: max_concurrent_runs must be 1.")
    for task in settings["tasks"]:
        if task.get("depends_on"):
            raise InvalidParameterValue(f"Task {task['task_key']}: a continuous job cannot have task dependencies.")
        if task.get("max_retries"):
            raise InvalidParameterValue(
                f"Task {task['task_key']}: a continuous job cannot have a retry policy (max_retries); use "
                "continuous.task_retry_mode."
            )


def _all_tasks(settings: Settings) -> Iterator[Settings]:
    for task in settings["tasks"]:
        yield task
        if "for_each_task" in task:
            yield task["for_each_task"]["task"]
