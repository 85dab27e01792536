"""What a trigger gave to a run, read from answers of runs/get with resolved values."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.core.trigger_values import given_to, mapping_to_add

LOCATION = "{{job.trigger.file_arrival.location}}"
UPDATED = "{{ job.trigger.table_update.updated_tables }}"
VERSION = "{{job.trigger.table_update.`main`.`silver`.`flights`.version}}"
COMMITTED = "{{job.trigger.table_update.main.silver.flights.commit_timestamp.iso_datetime}}"


def declared(name: str, default: str, value: str | None = None) -> dict[str, str]:
    return {"name": name, "default": default} | ({} if value is None else {"value": value})


def task(template: dict[str, Any], resolved: dict[str, Any], kind: str = "notebook_task") -> dict[str, Any]:
    return {"task_key": "main", kind: template, "resolved_values": {kind: resolved}}


def run(*parameters: dict[str, str], tasks: Any = (), trigger: str = "TABLE") -> dict[str, Any]:
    return {"run_id": 1, "trigger": trigger, "job_parameters": list(parameters), "tasks": list(tasks)}


def test_what_job_parameters_map_is_read_from_their_values() -> None:
    given = given_to(
        run(
            declared("tables", UPDATED, '["main.silver.flights"]'),
            declared("version", VERSION, "12"),
            declared("at", COMMITTED, "2026-01-01T12:00:00"),
            declared("kind", "{{job.trigger.type}}", "table_update"),
            declared("region", "NY", "NY"),
        )
    )
    assert given.values == {
        "updated_tables": ["main.silver.flights"],
        "commit_versions": {"main.silver.flights": 12},
        "commit_timestamps": {"main.silver.flights": {"iso_datetime": "2026-01-01T12:00:00"}},
        "type": "table_update",
    }
    assert given.mapped
    assert given.job_parameters["region"] == "NY"
    assert given.job_parameters["version"] == "12"


@pytest.mark.parametrize(
    ("template", "resolved", "kind"),
    [
        ({"base_parameters": {"where": LOCATION}}, {"base_parameters": {"where": "/Volumes/a/"}}, "notebook_task"),
        ({"parameters": ["-p", LOCATION]}, {"parameters": ["-p", "/Volumes/a/"]}, "spark_python_task"),
        ({"parameters": ["--in=" + LOCATION]}, {"parameters": ["--in=/Volumes/a/"]}, "python_wheel_task"),
        ({"named_parameters": {"w": LOCATION}}, {"named_parameters": {"w": "/Volumes/a/"}}, "python_wheel_task"),
        ({"job_parameters": {"w": LOCATION}}, {"job_parameters": {"w": "/Volumes/a/"}}, "run_job_task"),
        ({"left": LOCATION, "right": "x"}, {"left": "/Volumes/a/", "right": "x"}, "condition_task"),
    ],
)
def test_what_a_task_maps_is_read_from_its_resolved_values(template: Any, resolved: Any, kind: str) -> None:
    given = given_to(run(tasks=[task(template, resolved, kind)], trigger="FILE_ARRIVAL"))
    assert (given.values, given.mapped) == ({"file_arrival_location": "/Volumes/a/"}, True)


@pytest.mark.parametrize(
    "of_task",
    [
        task({"base_parameters": {"w": "{{job.parameters.where}}"}}, {"base_parameters": {"w": "/Volumes/a/"}}),
        task({}, {"base_parameters": {"where": "/Volumes/a/"}}),
    ],
    ids=["by its name", "handed down"],
)
@pytest.mark.parametrize("value", [None, LOCATION], ids=["no value", "a template"])
def test_a_parameter_that_the_run_does_not_show_resolved_is_found_in_a_task(of_task: Any, value: str | None) -> None:
    given = given_to(run(declared("where", LOCATION, value), tasks=[of_task]))
    assert given.job_parameters == {"where": "/Volumes/a/"}
    assert given.values == {"file_arrival_location": "/Volumes/a/"}


@pytest.mark.parametrize("value", [None, LOCATION, f"{LOCATION}x"])
def test_an_unresolved_reference_is_never_a_value(value: str | None) -> None:
    given = given_to(run(declared("where", LOCATION, value), declared("own", "{{mine}}", "{{mine}}")))
    assert given.job_parameters == {"where": None, "own": "{{mine}}"}
    assert (given.values, given.mapped) == ({}, True)


@pytest.mark.parametrize(
    "shown",
    [
        run(),
        run(declared("region", "NY", "NY"), declared("id", "{{job.run_id}}", "5")),
        run(tasks=[task({"base_parameters": {"a": "b"}}, {"base_parameters": {"a": "b"}})]),
        run(declared("both", f"{LOCATION} {UPDATED}", "/Volumes/a/ []")),
        {"run_id": 1},
    ],
    ids=["nothing", "others", "a task's others", "two in one text", "bare"],
)
def test_a_job_that_maps_none_says_so(shown: dict[str, Any]) -> None:
    given = given_to(shown)
    assert (given.values, given.mapped) == ({}, False)


def test_what_the_trigger_did_not_give_is_left_out() -> None:
    given = given_to(run(declared("where", LOCATION, ""), declared("tables", UPDATED, "not JSON")))
    assert given.values == {"updated_tables": "not JSON"}
    assert given.job_parameters == {"where": "", "tables": "not JSON"}


def test_references_of_other_triggers_and_new_ones_go_by_their_own_names() -> None:
    given = given_to(
        run(
            declared("at", "{{job.trigger.time.iso_date}}", "2026-01-01"),
            declared("m", "{{job.trigger.model.version}}", "3"),
        )
    )
    assert given.values == {"time": {"iso_date": "2026-01-01"}, "model_version": "3"}


@pytest.mark.parametrize("trigger", ["ONE_TIME", "RUN_JOB_TASK"])
def test_a_run_that_no_trigger_fired_was_given_nothing_by_one(trigger: str) -> None:
    """Whoever starts it may set the parameter to any text."""
    given = given_to(run(declared("where", LOCATION, "/Volumes/mine/"), trigger=trigger))
    assert (given.values, given.mapped) == ({}, True)


def test_the_mapping_to_add_is_exact() -> None:
    assert mapping_to_add("FILE_ARRIVAL") == [{"name": "file_arrival_location", "default": LOCATION}]
    assert mapping_to_add("TABLE")[0] == {"name": "updated_tables", "default": UPDATED.replace(" ", "")}
    assert mapping_to_add("CONTINUOUS") == [{"name": "trigger_type", "default": "{{job.trigger.type}}"}]


@pytest.mark.parametrize("garbage", [None, 5, "x", [], {}, [5]], ids=str)
@pytest.mark.parametrize("where", ["tasks", "resolved", "template"])
def test_tasks_of_any_shape_are_read_without_an_error(where: str, garbage: Any) -> None:
    shown = {"tasks": [task(garbage, {"base_parameters": {"a": "b"}})]}
    if where == "tasks":
        shown = {"tasks": [garbage]}
    if where == "resolved":
        shown = {"tasks": [{"task_key": "main", "resolved_values": garbage}]}
    assert given_to(run() | shown).values == {}
