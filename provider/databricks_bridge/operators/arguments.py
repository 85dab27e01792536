"""Arguments that may be templates: checked at parse as far as they are known, and whole after rendering."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow.sdk import XComArg

from databricks_bridge.core.errors import InvalidArgument, LedgerError
from databricks_bridge.core.parameter_names import check_own
from databricks_bridge.core.sources import Source, check_job
from databricks_bridge.core.task_try import TaskTry

ON_NOTHING_NEW = ("skip", "succeed")


def is_late(value: object) -> bool:
    """Whether the value is known only when the task runs: a Jinja template, or another task's output."""
    return isinstance(value, XComArg) or (isinstance(value, str) and ("{{" in value or "{%" in value))


def check_parameters(own: object, sources: Iterable[Source]) -> None:
    """Raise InvalidArgument for `job_parameters` that cannot work, as far as that is known now."""
    if own is None or is_late(own):
        return
    if isinstance(own, Mapping):
        own = {name: "" if is_late(value) else value for name, value in own.items()}
    check_own(own, sources)


def check_on_nothing_new(value: object) -> None:
    if not is_late(value) and value not in ON_NOTHING_NEW:
        raise InvalidArgument(f'on_nothing_new is {value!r}; use "skip" or "succeed"')


def count_of(value: object, field: str) -> int:
    """A number from 1 on, or its digits. Raises InvalidArgument."""
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgument(f"{field} is {value!r}; give a number from 1 on")
    return int(text)


def flag_of(value: object, field: str) -> bool:
    """True or False, or a template's text of them. Raises InvalidArgument."""
    known = {"true": True, "false": False, "none": False, "": False}
    text = str(value).strip().lower()
    if text not in known:
        raise InvalidArgument(f"{field} is {value!r}; give True or False")
    return known[text]


def job_of_arguments(job_id: object, job_name: object, owner: str) -> tuple[int | None, str | None]:
    """`job_id` as a number, or `job_name`. Raises InvalidArgument unless exactly one of them is given."""
    check_job(job_id, job_name, owner)
    if job_id is None:
        return None, str(job_name)
    text = str(job_id).strip()
    if isinstance(job_id, bool) or not text.isdecimal():
        raise InvalidArgument(f"job_id of {owner} is {job_id!r}; give the job's number")
    return int(text), None


def own_parameters(own: Any, sources: Iterable[Source]) -> Mapping[str, str]:
    """`job_parameters` after rendering. Raises InvalidArgument."""
    given: Mapping[str, str] = {} if own is None else own
    check_own(given, sources)
    return given


def check_range(value: object, sources: Sequence[Source]) -> None:
    """Raise InvalidArgument for a `range` that cannot work, as far as that is known now."""
    if value is None:
        return
    # Imported where it is used: most DAG files have no range, and every one pays for what this module imports.
    from databricks_bridge.core.bounds import bounds_of, check_sources

    check_sources(sources)
    parts = [value, *(value.values() if isinstance(value, Mapping) else ())]
    parts += [one for part in parts if isinstance(part, list | tuple) for one in part]
    if not any(is_late(part) for part in parts):
        bounds_of(value, sources)


def bounds_or_none(value: object, sources: Sequence[Source]) -> dict[str, tuple[int, int]] | None:
    """`range` after rendering; None, or text that says null, is no range. Raises InvalidArgument."""
    if value is None or (isinstance(value, str) and value.strip() == "null"):
        return None
    from databricks_bridge.core.bounds import bounds_of

    return bounds_of(value, sources)


def refuse_backfill(context: Any, subscription: str) -> None:
    """Raise InvalidArgument in a DAG run that Airflow's backfill made: what is pending is not what it is about."""
    run_type = context["dag_run"].run_type
    if getattr(run_type, "value", run_type) == "backfill":
        raise InvalidArgument(
            f"this is a backfill, and without range= it would process what is pending in subscription {subscription!r} "
            "instead of what it is about; give the operator range={alias: (from, to)}, or move the watermark back for good: "
            "databricks-bridge watermark rewind"
        )


def check_mapped(task: Any, context: Any, inlet_given: bool) -> None:
    """Raise LedgerError in a mapped task without the inlet: one that is added at run time is registered nowhere."""
    map_index = context["ti"].map_index
    mapped = map_index is not None and map_index >= 0 and next(task.iter_mapped_task_groups(), None) is None
    if mapped and not inlet_given:
        raise LedgerError(
            f"the mapped task {task.task_id!r} lacks the inlet that keeps its subscription's record: add "
            "inlets=[subscription.asset] to partial()"
        )


def task_try_of(context: Any) -> TaskTry:
    """The try that runs in this Airflow context."""
    ti = context["ti"]
    tries = getattr(ti, "max_tries", None)
    retries = getattr(getattr(ti, "task", None), "retries", None)
    cleared = tries - retries if isinstance(tries, int) and isinstance(retries, int) else 0
    map_index = -1 if ti.map_index is None else ti.map_index
    return TaskTry(ti.dag_id, ti.run_id, ti.task_id, map_index, ti.try_number, max(0, cleared))
