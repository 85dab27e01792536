"""Settings of jobs with odd values at every depth: an answer each time, and no trigger that fails at every look."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from tests.local.local_kit import Notebooks, write_notebook
from tests.local.server.test_malformed_requests import NASTY_TEXT, NUMBERS, TASK

REQUESTS = 400
ODD = st.one_of(
    NASTY_TEXT,
    NUMBERS,
    st.none(),
    st.booleans(),
    st.lists(NASTY_TEXT, max_size=2),
    st.sampled_from(
        ["\u00b2", "0 0 \u00b2 * * ?", "* * * * * ?", "9" * 30, "\ud800", "/Volumes/main/s/v/\x00", {}, [{}]]
    ),
)
TIMERS = {"min_time_between_triggers_seconds": ODD, "wait_after_last_change_seconds": ODD}


def having(**fields: Any) -> st.SearchStrategy[Any]:
    """An object with some of these fields, or something else in its place."""
    return st.fixed_dictionaries({}, optional=fields) | ODD


TRIGGER = having(
    pause_status=ODD,
    file_arrival=having(url=ODD, **TIMERS),
    table_update=having(table_names=ODD, condition=ODD, **TIMERS),
    periodic=having(interval=ODD, unit=ODD),
    job_completion=having(jobs=st.lists(having(job_id=ODD, workspace_id=ODD), max_size=2), if_status=ODD),
    model=having(securable_name=ODD, condition=ODD, aliases=ODD, **TIMERS),
)
STEP = having(
    task_key=ODD,
    depends_on=st.lists(having(task_key=ODD, outcome=ODD), max_size=2) | ODD,
    run_if=ODD,
    max_retries=ODD,
    min_retry_interval_millis=ODD,
    timeout_seconds=ODD,
    notebook_task=having(notebook_path=ODD, base_parameters=ODD, source=ODD),
    condition_task=having(op=ODD, left=ODD, right=ODD),
    run_job_task=having(job_id=ODD, job_parameters=ODD),
    for_each_task=having(inputs=ODD, concurrency=ODD, task=st.just(TASK) | ODD),
    sql_task=having(file=having(path=ODD, source=ODD), warehouse_id=ODD, parameters=ODD),
)
SETTINGS = st.fixed_dictionaries(
    {"name": ODD | st.just("n")},
    optional={
        "tasks": st.lists(STEP | st.just(TASK), max_size=3) | st.just([TASK]),
        "trigger": TRIGGER,
        "triggers": st.lists(TRIGGER, max_size=2),
        "schedule": having(quartz_cron_expression=ODD, timezone_id=ODD | st.just("UTC"), pause_status=ODD),
        "continuous": having(pause_status=ODD, task_retry_mode=ODD),
        "parameters": st.lists(having(name=ODD, default=ODD), max_size=2) | ODD,
        "queue": having(enabled=ODD),
        "max_concurrent_runs": ODD,
        "timeout_seconds": ODD,
        "access_control_list": st.lists(having(user_name=ODD, permission_level=ODD), max_size=2) | ODD,
        "tags": ODD,
        "run_as": having(user_name=ODD),
    },
)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Deployment]:
    with deployment_in_thread(
        tmp_path / "home", ["ops"], engine=InstantEngine(Notebooks().run), time_scale=0.005
    ) as deployment:
        write_notebook(deployment, "ops", "main")
        yield deployment


def test_no_setting_of_a_job_is_answered_500_or_fails_at_every_look(
    up: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    answered: dict[int, int] = {}
    caplog.set_level(logging.ERROR)
    headers = {"Authorization": f"Bearer {up.token('ops')}", "Content-Type": "application/json"}
    with httpx.Client(base_url=up.host("ops"), timeout=20, headers=headers) as http:

        @settings(
            max_examples=REQUESTS,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.sampled_from(["create", "reset", "update", "runs/submit"]), SETTINGS)
        def sent(call: str, wanted: dict[str, Any]) -> None:
            job_id = http.post("/api/2.2/jobs/create", json={"name": "kept", "tasks": [TASK]}).json()["job_id"]
            body = {"job_id": job_id, "new_settings": wanted} if call in ("reset", "update") else wanted
            answer = http.post(f"/api/2.2/jobs/{call}", content=json.dumps(body))
            answered[answer.status_code] = answered.get(answer.status_code, 0) + 1
            assert answer.status_code not in (500, 502), (call, body, answer.text)
            found = http.get("/api/2.2/jobs/get", params={"job_id": job_id, "include_trigger_history": "true"})
            assert found.status_code == 200, (call, body, found.text)

        sent()
        looked = http.get("/api/2.2/jobs/list", params={"limit": 100, "expand_tasks": "true"})
    assert looked.status_code == 200
    assert {200, 400} <= answered.keys(), answered
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
