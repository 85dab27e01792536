"""The rows of the system tables, from jobs, runs and attempts as they are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.layout import Layout
from databricks_bridge.local.runs.model import Attempt, Outcome, Phase, Repair, Run
from databricks_bridge.local.runs.records import put_attempt, put_run, remove_run
from databricks_bridge.local.sql import system_rows as rows
from databricks_bridge.local.sql.model import NoSql
from databricks_bridge.local.sql.system_schema import SCHEMAS
from databricks_bridge.local.sql.system_tables import SystemTables
from databricks_bridge.local.store import JobChange, Store

IDS = {"ops": "1001", "met": "1002"}


def at(clock: str) -> int:
    return int(datetime.fromisoformat(f"2026-03-01T{clock}+00:00").timestamp() * 1000)


def text(clock: str) -> str:
    return datetime.fromtimestamp(at(clock) / 1000, UTC).isoformat(timespec="milliseconds")


def run(run_id: int, trigger: str, start: str, end: str = "", outcome: Outcome = Outcome.SUCCESS, **more: Any) -> Run:
    return Run(
        **{
            "run_id": run_id,
            "workspace": "ops",
            "job_id": 7,
            "run_type": "JOB_RUN",
            "name": "silver",
            "creator": "me",
            "trigger": trigger,
            "settings": {},
            "start_time": at(start),
            "end_time": at(end) if end else 0,
            "phase": Phase.DONE if end else Phase.RUNNING,
            "outcome": outcome if end else None,
            **more,
        }
    )


def attempt(run_id: int, job_run_id: int, **more: Any) -> Attempt:
    known: dict[str, Any] = {"task_key": "main", "number": 0, "round": 0, "phase": Phase.DONE}
    return Attempt(run_id=run_id, job_run_id=job_run_id, **{**known, **more})


def periods(shown: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(row["period_start_time"], row["period_end_time"], row.get("result_state")) for row in shown]


def test_a_long_run_has_a_row_for_each_hour_and_its_result_in_the_last() -> None:
    long = run(1, "TABLE", "10:20:00", "12:05:00", slot_at=at("10:21:00"))
    shown = rows.run_rows([long], {}, IDS, at("23:00:00"))
    assert periods(shown) == [
        (text("10:20:00"), text("11:00:00"), None),
        (text("11:00:00"), text("12:00:00"), None),
        (text("12:00:00"), text("12:05:00"), "SUCCEEDED"),
    ]
    assert {row["trigger_type"] for row in shown} == {"TABLE"}
    assert (shown[2]["queue_duration_seconds"], shown[2]["run_duration_seconds"]) == (60, 6300)
    assert "run_duration_seconds" not in shown[0]


def test_a_run_that_ends_on_the_hour_or_at_once_has_one_row() -> None:
    whole, none = (
        run(1, "ONE_TIME", "10:00:00", "11:00:00"),
        run(2, "ONE_TIME", "10:00:00", "10:00:00", Outcome.NO_SLOT),
    )
    shown = rows.run_rows([whole, none], {}, IDS, at("23:00:00"))
    assert periods(shown) == [
        (text("10:00:00"), text("11:00:00"), "SUCCEEDED"),
        (text("10:00:00"), text("10:00:00"), "SKIPPED"),
    ]


def test_of_a_run_that_goes_on_the_hours_that_are_over_are_shown() -> None:
    goes_on = run(1, "CONTINUOUS", "10:20:00")
    assert periods(rows.run_rows([goes_on], {}, IDS, at("10:59:59"))) == []
    assert periods(rows.run_rows([goes_on], {}, IDS, at("11:59:59"))) == [(text("10:20:00"), text("11:00:00"), None)]


def test_a_repair_has_rows_of_its_own() -> None:
    repair = Repair(9, at("15:00:00"), at("15:01:00"), Outcome.SUCCESS)
    repaired = run(
        1,
        "ONE_TIME",
        "10:00:00",
        "15:01:00",
        repairs=(repair,),
        original_end_time=at("10:01:00"),
        original_outcome=Outcome.FAILED,
    )
    assert periods(rows.run_rows([repaired], {}, IDS, at("23:00:00"))) == [
        (text("10:00:00"), text("10:01:00"), "FAILED"),
        (text("15:00:00"), text("15:01:00"), "SUCCEEDED"),
    ]


@pytest.mark.parametrize(
    ("trigger", "settings", "word"),
    [
        ("ONE_TIME", {}, "ONETIME"),
        ("TABLE", {}, "TABLE"),
        ("FILE_ARRIVAL", {}, "FILE_ARRIVAL"),
        ("PERIODIC", {"schedule": {"quartz_cron_expression": "0 0 * * * ?"}}, "CRON"),
        ("PERIODIC", {"trigger": {"periodic": {"interval": 1}}}, "PERIODIC"),
    ],
)
def test_the_words_of_a_run_s_trigger(trigger: str, settings: dict[str, Any], word: str) -> None:
    (row,) = rows.run_rows([run(1, trigger, "10:00:00", "10:01:00", settings=settings)], {}, IDS, 0)
    assert row["trigger_type"] == word


def test_jobs_that_run_jobs_name_the_task_at_the_top() -> None:
    above = run(1, "ONE_TIME", "10:00:00", "10:09:00")
    between = run(2, "RUN_JOB_TASK", "10:01:00", "10:08:00", trigger_info={"run_id": 11})
    below = run(3, "RUN_JOB_TASK", "10:02:00", "10:07:00", trigger_info={"run_id": 12})
    attempts = {11: attempt(11, 1), 12: attempt(12, 2)}
    shown = rows.run_rows([above, between, below], attempts, IDS, 0)
    sources = [(row["source_task_run_id"], row["root_task_run_id"]) for row in shown]
    assert sources == [(None, None), ("11", "11"), ("12", "11")]


def test_task_runs_that_have_begun() -> None:
    whole = run(1, "ONE_TIME", "10:00:00", "10:09:00")
    began = {"start_time": at("10:00:00"), "end_time": at("10:01:30")}
    attempts = [
        attempt(11, 1, outcome=Outcome.BROKEN, **began),
        attempt(12, 1, outcome=Outcome.SUCCESS, parent=11, **began),
        attempt(13, 1, phase=Phase.BLOCKED),
        attempt(14, 99, outcome=Outcome.SUCCESS, **began),
    ]
    shown = rows.task_run_rows([whole], attempts, IDS, at("23:00:00"))
    assert [(row["run_id"], row["result_state"], row["parent_run_id"]) for row in shown] == [
        ("11", "ERROR", "1"),
        ("12", "SUCCEEDED", "11"),
    ]
    assert (shown[0]["job_run_id"], shown[0]["execution_duration_seconds"]) == ("1", 90)


def test_a_job_has_a_row_for_each_change_and_a_last_one_when_it_is_deleted() -> None:
    tasks = [{"task_key": "a"}, {"task_key": "b", "depends_on": [{"task_key": "a"}]}]
    on_table = {"pause_status": "PAUSED", "table_update": {"table_names": ["main.s.t"]}}
    changes = [
        JobChange(7, "ops", at("10:00:00"), False, {"name": "one", "tags": {"x": "1"}, "tasks": tasks}),
        JobChange(8, "far", at("10:30:00"), False, {"name": "of another metastore", "tasks": tasks}),
        JobChange(7, "ops", at("11:00:00"), False, {"name": "two", "trigger": on_table, "tasks": tasks[:1]}),
        JobChange(7, "ops", at("12:00:00"), True, {"name": "two", "trigger": on_table, "tasks": tasks[:1]}),
    ]
    shown = rows.job_rows(changes, IDS, "me")
    assert [(row["name"], row["change_time"], row["delete_time"]) for row in shown] == [
        ("one", text("10:00:00"), None),
        ("two", text("11:00:00"), None),
        ("two", text("12:00:00"), text("12:00:00")),
    ]
    assert [(row["trigger_type"], row["paused"]) for row in shown] == [
        (None, False),
        ("TABLE_UPDATE", True),
        ("TABLE_UPDATE", True),
    ]
    assert shown[1]["trigger"]["table_update"]["table_names"] == ["main.s.t"]
    assert {row["create_time"] for row in shown} == {text("10:00:00")}
    of_tasks = rows.task_rows(changes, IDS)
    assert [(row["task_key"], row["depends_on_keys"], row["change_time"], row["delete_time"]) for row in of_tasks] == [
        ("a", [], text("10:00:00"), None),
        ("b", ["a"], text("10:00:00"), None),
        ("b", ["a"], text("11:00:00"), text("11:00:00")),
        ("a", [], text("12:00:00"), text("12:00:00")),
    ]


def test_two_triggers_are_multiple() -> None:
    settings = {"triggers": [{"periodic": {"interval": 1}}, {"file_arrival": {"url": "/Volumes/a/b/c"}}]}
    (row,) = rows.job_rows([JobChange(7, "ops", 0, False, settings)], IDS, "me")
    assert (row["trigger_type"], row["trigger"], len(row["triggers"])) == ("MULTIPLE", None, 2)


def test_every_row_has_only_columns_of_its_table_and_every_outcome_a_word() -> None:
    whole = run(1, "ONE_TIME", "10:00:00", "10:09:00")
    one = attempt(11, 1, outcome=Outcome.SUCCESS, start_time=at("10:00:00"), end_time=at("10:01:30"))
    changes = [JobChange(7, "ops", 0, False, {"tasks": [{"task_key": "a"}]})]
    for table, shown in (
        ("jobs", rows.job_rows(changes, IDS, "me")),
        ("job_tasks", rows.task_rows(changes, IDS)),
        ("job_run_timeline", rows.run_rows([whole], {}, IDS, 0)),
        ("job_task_run_timeline", rows.task_run_rows([whole], [one], IDS, 0)),
    ):
        assert set(shown[0]) == set(SCHEMAS["lakeflow"][table])
    assert set(rows.RESULTS) == set(Outcome)


def test_tables_are_published_of_one_metastore_and_again_when_they_have_changed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    with store.transaction() as db:
        for name, number in (("ops", 1001), ("far", 1002)):
            db.execute("INSERT INTO workspaces VALUES (?, ?, '', '', '')", (name, number))
    layout = Layout(tmp_path)
    tables = SystemTables(NoSql(), store, layout, {"ops": "one", "far": "two"}, "me", now=lambda: at("23:00:00") / 1000)
    folder = layout.metastore_root("one") / "system" / "lakeflow"

    def shown(table: str) -> list[dict[str, Any]]:
        tables.publish("one")
        query = json.loads((folder / f"{table}.view.json").read_text())["query"]
        return [json.loads(line) for line in Path(query.split("`")[-2]).read_text().splitlines()]

    assert shown("job_run_timeline") == []
    put_run(store, run(1, "ONE_TIME", "10:00:00", "10:09:00"))
    put_run(store, replace(run(2, "ONE_TIME", "10:00:00", "10:09:00"), workspace="far"))
    put_attempt(store, attempt(11, 1, outcome=Outcome.SUCCESS, start_time=at("10:00:00"), end_time=at("10:01:30")))
    assert [row["run_id"] for row in shown("job_run_timeline")] == ["1"]
    assert [row["workspace_id"] for row in shown("job_task_run_timeline")] == ["1001"]
    remove_run(store, 1)
    assert shown("job_run_timeline") == []
    store.close()
