"""Runs that find no slot, and values that are seen by run_job, SQL and continuous tasks. Over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.sql.model import SqlColumn, SqlFailed, SqlRequest, SqlRows
from tests.local.local_kit import Api, Notebooks, client, eventually, failure, write_notebook

MakeJob = Callable[..., int]


def test_C08_without_a_queue_a_second_run_is_skipped_and_has_ended(
    api: Api, notebooks: Notebooks, make_job: MakeJob
) -> None:
    notebooks.block("main")
    job_id = make_job(max_concurrent_runs=1)
    first = api.post("run-now", job_id=job_id)["run_id"]
    api.running(first)
    second = api.run(api.post("run-now", job_id=job_id)["run_id"])
    assert (second["state"]["life_cycle_state"], second["state"]["result_state"]) == (
        "SKIPPED",
        "MAXIMUM_CONCURRENT_RUNS_REACHED",
    )
    assert second["status"]["termination_details"]["code"] == "MAX_CONCURRENT_RUNS_EXCEEDED"
    assert second["end_time"] > 0
    notebooks.unblock("main")
    api.ended(first)


def test_C08_with_a_queue_it_waits_and_then_runs(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    job_id = make_job(max_concurrent_runs=1, queue={"enabled": True})
    first = api.post("run-now", job_id=job_id)["run_id"]
    api.running(first)
    second = api.post("run-now", job_id=job_id)["run_id"]
    assert api.run(second)["status"]["state"] == "QUEUED"
    assert api.run(second)["status"]["queue_details"]["code"] == "MAX_CONCURRENT_RUNS_REACHED"
    notebooks.unblock("main")
    assert api.ended(second)["state"]["result_state"] == "SUCCESS"
    assert [request.run_id for request in notebooks.seen] == [
        api.run(run_id)["tasks"][0]["run_id"] for run_id in (first, second)
    ]


@pytest.mark.parametrize("mode", ["NEVER", "ON_FAILURE"])
def test_a_continuous_job_tries_its_task_three_times_more_when_it_is_told_to(tmp_path: Path, mode: str) -> None:
    notebooks = Notebooks(functions={"main": lambda request: failure("ValueError: no")})
    # A minute is 30 ms: pauses of 30, 60 and 120 ms, then a run that has failed, then another run.
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(notebooks.run), time_scale=0.0005) as up:
        api = Api(client(up, "ops"))
        task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(up, "ops", "main")}}
        job_id = api.post("create", name="j", tasks=[task], continuous={"task_retry_mode": mode})["job_id"]
        runs = eventually(
            lambda: (found := api.get("runs/list", job_id=job_id, completed_only="true").get("runs", []))[1:] and found
        )
        for run in runs:
            assert run["trigger"] == "CONTINUOUS"
            attempts = api.run(run["run_id"])["tasks"]
            assert [one["attempt_number"] for one in attempts] == ([0, 1, 2, 3] if mode == "ON_FAILURE" else [0])
            starts = [one["start_time"] for one in attempts]
            if mode == "ON_FAILURE":
                pauses = [after - one["end_time"] for one, after in zip(attempts, starts[1:], strict=False)]
                assert all(pause >= least for pause, least in zip(pauses, (29, 59, 119), strict=True))
        api.post("update", job_id=job_id, new_settings={"continuous": {"pause_status": "PAUSED"}})


@dataclass
class Answers:
    """A SQL runner that answers from a table of statements, and keeps what it was asked."""

    rows: dict[str, SqlRows]
    asked: list[SqlRequest] = field(default_factory=list)

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        self.asked.append(request)
        if request.statement not in self.rows:
            raise SqlFailed(f"[TABLE_OR_VIEW_NOT_FOUND] no answer for {request.statement}", error_code="BAD_REQUEST")
        return self.rows[request.statement]


def test_a_sql_file_runs_statement_by_statement_and_its_rows_are_told(tmp_path: Path) -> None:
    notebooks = Notebooks()
    columns = (SqlColumn("n", "LONG", "BIGINT"), SqlColumn("who", "STRING", "STRING"))
    runner = Answers(
        {
            "SET x = 1": SqlRows((), []),
            "SELECT :day AS n, 7, '7', 'of j', t.`7` -- {{all}}": SqlRows(columns, [["3", "a"], ["4", None]]),
        },
    )
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(notebooks.run), sql=runner) as up:
        api = Api(client(up, "ops"))
        main = write_notebook(up, "ops", "main")
        folder = up.layout.workspace_files("ops") / "Shared"
        (folder / "q.sql").write_text(
            "SET x = 1;\nSELECT :day AS n, {{day}}, '{{ day }}', 'of {{job.name}}', t.`{{day}}` -- {{all}}"
        )
        (folder / "bad.sql").write_text("SELECT nothing; SET x = 1")
        (folder / "lost.sql").write_text("SELECT '{{lost}}'")

        def sql(path: str) -> dict[str, Any]:
            parameters = {"day": "{{job.parameters.day}}"}
            return {
                "warehouse_id": f"{1001:016x}",
                "file": {"path": path, "source": "WORKSPACE"},
                "parameters": parameters,
            }

        base = {
            "n": "{{tasks.q.output.first_row.n}}",
            "rows": "{{tasks.q.output.rows}}",
            "who": "{{tasks.q.output.first_row.who}}",
        }
        tasks = [
            {"task_key": "q", "sql_task": sql("/Shared/q.sql")},
            {
                "task_key": "main",
                "depends_on": [{"task_key": "q"}],
                "notebook_task": {"notebook_path": main, "base_parameters": base},
            },
        ]
        day = [{"name": "day", "default": "7"}]
        job_id = api.post("create", name="j", tasks=tasks, parameters=day)["job_id"]
        run = api.ended(api.post("run-now", job_id=job_id)["run_id"])
        assert run["state"]["result_state"] == "SUCCESS"
        assert [(one.statement, [(p.name, p.value) for p in one.parameters]) for one in runner.asked] == [
            ("SET x = 1", []),
            ("SELECT :day AS n, 7, '7', 'of j', t.`7` -- {{all}}", [("day", "7")]),
        ]
        told = notebooks.seen[0].parameters
        assert notebooks.seen[0].context == {
            "runId": str(run["tasks"][1]["run_id"]),
            "idInJob": str(run["tasks"][1]["run_id"]),
            "multitaskParentRunId": str(run["run_id"]),
            "taskKey": "main",
            "jobId": str(job_id),
            "jobName": "j",
            "jobTriggerType": notebooks.seen[0].context["jobTriggerType"],
            "orgId": notebooks.seen[0].context["orgId"],
            "user": "local-workspace",
            "notebookPath": main,
        }
        assert (told["n"], told["who"]) == ("3", "a")
        assert told["rows"] == '[{"n": "3", "who": "a"}, {"n": "4", "who": null}]'
        output = api.get("runs/get-output", run_id=run["tasks"][0]["run_id"])
        assert output["sql_output"]["query_output"]["warehouse_id"] == f"{1001:016x}"
        bad = api.post(
            "create", name="b", tasks=[{"task_key": "q", "sql_task": sql("/Shared/bad.sql")}], parameters=day
        )["job_id"]
        failed = api.ended(api.post("run-now", job_id=bad)["run_id"])
        assert failed["state"]["result_state"] == "FAILED"
        error = api.get("runs/get-output", run_id=failed["run_id"])["error"]
        assert error == "[BAD_REQUEST] [TABLE_OR_VIEW_NOT_FOUND] no answer for SELECT nothing"
        assert len(runner.asked) == 3
        lost = api.post(
            "create", name="l", tasks=[{"task_key": "q", "sql_task": sql("/Shared/lost.sql")}], parameters=day
        )
        failed = api.ended(api.post("run-now", job_id=lost["job_id"])["run_id"])
        error = api.get("runs/get-output", run_id=failed["run_id"])["error"]
        assert error.startswith(
            "The SQL file asks for {{lost}}, which is no parameter of the task or the job (there: day)"
        )
