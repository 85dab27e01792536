"""Slots, queue, skip, cancel and repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.local.local_kit import Api, Notebooks, eventually, failure

MakeJob = Callable[..., int]


def test_without_a_queue_the_second_run_is_skipped(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    job_id = make_job()
    api.running(api.post("run-now", job_id=job_id, idempotency_token="one")["run_id"])
    skipped = api.run(api.post("run-now", job_id=job_id, idempotency_token="two")["run_id"])
    assert skipped["state"]["life_cycle_state"] == "SKIPPED"
    assert skipped["state"]["result_state"] == "MAXIMUM_CONCURRENT_RUNS_REACHED"
    assert skipped["status"]["termination_details"]["code"] == "MAX_CONCURRENT_RUNS_EXCEEDED"
    again = api.post("run-now", job_id=job_id, idempotency_token="two")["run_id"]
    assert again == skipped["run_id"]
    assert len(notebooks.seen) == 1


def test_with_a_queue_it_waits_for_its_turn(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    job_id = make_job(queue={"enabled": True})
    first, second, third = (api.post("run-now", job_id=job_id)["run_id"] for _ in range(3))
    queued = api.run(second)
    assert queued["state"]["life_cycle_state"] == "QUEUED"
    assert queued["status"]["queue_details"]["code"] == "MAX_CONCURRENT_RUNS_REACHED"
    assert queued["end_time"] == 0
    notebooks.unblock("main")
    starts = [api.ended(run_id)["tasks"][0]["start_time"] for run_id in (first, second, third)]
    assert starts == sorted(starts)
    assert api.run(third)["queue_duration"] >= 0
    assert [api.run(run_id)["state"]["result_state"] for run_id in (first, second, third)] == ["SUCCESS"] * 3


def test_run_now_may_ask_for_the_queue(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    job_id = make_job()
    api.post("run-now", job_id=job_id)
    run_id = api.post("run-now", job_id=job_id, queue={"enabled": True})["run_id"]
    assert api.run(run_id)["state"]["life_cycle_state"] == "QUEUED"


def test_more_slots_let_a_queued_run_start(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    job_id = make_job(queue={"enabled": True})
    _, second = (api.post("run-now", job_id=job_id)["run_id"] for _ in range(2))
    api.post("update", job_id=job_id, new_settings={"max_concurrent_runs": 2})
    api.running(second)


def test_no_slots_at_all_skips_every_run(api: Api, make_job: MakeJob) -> None:
    job_id = make_job(max_concurrent_runs=0, queue={"enabled": True})
    run_id = api.post("run-now", job_id=job_id)["run_id"]
    assert api.run(run_id)["state"]["life_cycle_state"] == "SKIPPED"


def test_cancel_kills_the_notebook_and_frees_the_slot(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    job_id = make_job(queue={"enabled": True})
    first, second = (api.post("run-now", job_id=job_id)["run_id"] for _ in range(2))
    eventually(lambda: len(notebooks.seen) == 1)
    api.post("runs/cancel", run_id=first)
    ended = api.ended(first)
    assert ended["state"]["life_cycle_state"] == "TERMINATED"
    assert ended["state"]["result_state"] == "CANCELED"
    assert ended["state"]["user_cancelled_or_timedout"] is True
    assert ended["status"]["termination_details"]["code"] == "USER_CANCELED"
    assert ended["tasks"][0]["state"]["result_state"] == "CANCELED"
    assert len(notebooks.killed) == 1
    api.running(second)
    api.post("runs/cancel", run_id=first)
    assert api.run(first) == ended


def test_a_queued_run_is_cancelled_at_once(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.block("main")
    job_id = make_job(queue={"enabled": True})
    first, second = (api.post("run-now", job_id=job_id)["run_id"] for _ in range(2))
    api.post("runs/cancel", run_id=second)
    assert api.run(second)["state"]["result_state"] == "CANCELED"
    assert api.run(first)["status"]["state"] != "TERMINATED"


def test_cancel_all_takes_queued_and_running_ones_of_one_job(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    for name in ("main", "other"):
        notebooks.block(name)
    job_id, other = make_job(queue={"enabled": True}), make_job({"other": {}})
    run_ids = [api.post("run-now", job_id=job_id)["run_id"] for _ in range(3)]
    spared = api.running(api.post("run-now", job_id=other)["run_id"])["run_id"]
    api.post("runs/cancel-all", job_id=job_id)
    assert [api.ended(run_id)["state"]["result_state"] for run_id in run_ids] == ["CANCELED"] * 3
    assert len(notebooks.runs_of("main")) <= 1
    assert api.run(spared)["status"]["state"] == "RUNNING"


def test_a_repair_keeps_the_run_id_and_its_history(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.functions["second"] = lambda request: failure("ValueError: no")
    job_id = make_job(
        {
            "first": {},
            "second": {"depends_on": [{"task_key": "first"}]},
            "third": {"depends_on": [{"task_key": "second"}]},
        },
        parameters=[{"name": "day", "default": "1"}],
    )
    run_id = api.post("run-now", job_id=job_id, job_parameters={"day": "2"})["run_id"]
    failed = api.ended(run_id)
    del notebooks.functions["second"]
    repair_id = api.post("runs/repair", run_id=run_id, rerun_all_failed_tasks=True)["repair_id"]
    run = api.ended(run_id, include_history="true")
    assert run["state"]["result_state"] == "SUCCESS"
    assert run["start_time"] == failed["start_time"]
    assert run["end_time"] >= failed["end_time"]
    assert [request.task_key for request in notebooks.seen] == ["first", "second", "second", "third"]
    assert notebooks.seen[-1].parameters == {"day": "2"}
    original, repair = run["repair_history"]
    assert original["type"] == "ORIGINAL"
    assert original["state"]["result_state"] == "FAILED"
    assert original["task_run_ids"] == [task["run_id"] for task in failed["tasks"]]
    assert (repair["type"], repair["id"]) == ("REPAIR", repair_id)
    assert repair["state"]["result_state"] == "SUCCESS"
    numbers = {(task["task_key"], task["attempt_number"]) for task in run["tasks"]}
    assert numbers == {("first", 0), ("second", 0), ("second", 1), ("third", 0), ("third", 1)}


def test_a_repair_uses_the_job_s_present_settings(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    notebooks.functions["main"] = lambda request: failure("ValueError: no")
    job_id = make_job()
    run_id = api.post("run-now", job_id=job_id)["run_id"]
    api.ended(run_id)
    notebook = {"notebook_path": "/Shared/main", "base_parameters": {"fixed": "yes"}}
    task = {"task_key": "main", "notebook_task": notebook}
    api.post("update", job_id=job_id, new_settings={"tasks": [task]})
    api.post("runs/repair", run_id=run_id, rerun_tasks=["main"])
    eventually(lambda: len(notebooks.seen) == 2)
    assert notebooks.seen[-1].parameters == {"fixed": "yes"}


def test_the_second_repair_must_name_the_first(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    notebooks.functions["main"] = lambda request: failure("ValueError: no")
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    api.ended(run_id)
    repair_id = api.post("runs/repair", run_id=run_id, rerun_tasks=["main"])["repair_id"]
    api.ended(run_id)
    with pytest.raises(InvalidParameterValue, match=f"latest_repair_id .*{repair_id}"):
        api.post("runs/repair", run_id=run_id, rerun_tasks=["main"])
    api.post("runs/repair", run_id=run_id, rerun_tasks=["main"], latest_repair_id=repair_id)
    assert len(api.ended(run_id, include_history="true")["repair_history"]) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either rerun_tasks or rerun_all_failed_tasks"),
        ({"rerun_tasks": ["nothing"]}, "has no task nothing"),
        ({"rerun_all_failed_tasks": True}, "no failed tasks"),
    ],
)
def test_repairs_that_are_refused(api: Api, make_job: MakeJob, given: dict[str, Any], message: str) -> None:
    from databricks.sdk.errors import BadRequest

    run_id = api.post("run-now", job_id=make_job())["run_id"]
    api.ended(run_id)
    with pytest.raises(BadRequest, match=message):
        api.post("runs/repair", run_id=run_id, **given)


def test_an_active_run_is_not_repaired(api: Api, notebooks: Notebooks, make_job: MakeJob) -> None:
    from databricks.sdk.errors import BadRequest

    notebooks.block("main")
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    with pytest.raises(BadRequest, match="in progress"):
        api.post("runs/repair", run_id=run_id, rerun_tasks=["main"])
