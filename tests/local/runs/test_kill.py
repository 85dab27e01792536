"""kill -9 just before a commit, at many of them: what was due has one run, and every run has one honest end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

POINTS = int(os.environ.get("KILL_POINTS", "14"))
"""Kill points, spread over all commits of the story; 1000 takes every one."""
TRIGGERS = {
    "files": "FILE_ARRIVAL",
    "after": "JOB_COMPLETION",
    "tables": "TABLE",
    "called": "RUN_JOB_TASK",
    "nightly": "PERIODIC",
}


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    home = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.local.runs.killed_deployment", str(home), str(POINTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_process_was_killed_where_it_should_be(stories: list[dict[str, Any]]) -> None:
    # How many commits a story has depends a little on its timing: of the last points some may not be reached.
    assert sum(story["died"] for story in stories) >= len(stories) * 0.8 >= 10


def test_what_was_due_has_fired_once(stories: list[dict[str, Any]]) -> None:
    for story in stories:
        fired = Counter((run["job"], run["trigger"]) for run in story["runs"])
        assert fired == Counter(TRIGGERS.items()), f"killed at commit {story['point']}"


def test_every_run_has_one_end(stories: list[dict[str, Any]]) -> None:
    for story in stories:
        for run in story["runs"]:
            assert run["ends"] == 1, (story["point"], run)
            assert run["outcome"] in ("SUCCESS", "SUCCESS_WITH_FAILURES", "BROKEN", "FAILED"), (story["point"], run)
            assert all(phase == "DONE" for _, phase, _ in run["attempts"]), (story["point"], run)


def test_no_task_run_is_run_twice_and_none_is_called_a_success_that_was_not(stories: list[dict[str, Any]]) -> None:
    for story in stories:
        assert not [line for line, count in Counter(story["engine"]).items() if count > 1], story["point"]
        for run in story["runs"]:
            for task_run, _, outcome in run["attempts"]:
                if outcome == "SUCCESS" and run["job"] != "tables":
                    assert f"finished {task_run}" in story["engine"], (story["point"], run)


def test_something_was_lost_with_the_process_and_says_so(stories: list[dict[str, Any]]) -> None:
    """Otherwise nothing was killed while it worked, and the rest says little."""
    outcomes = {outcome for story in stories for run in story["runs"] for _, _, outcome in run["attempts"]}
    assert outcomes >= {"SUCCESS", "BROKEN"}


def test_a_run_job_task_waits_for_the_same_run_after_the_restart(stories: list[dict[str, Any]]) -> None:
    for story in stories:
        by_job = {run["job"]: run for run in story["runs"]}
        called, calling = by_job["called"]["outcome"], by_job["tables"]["outcome"]
        assert (called, calling) in {("SUCCESS", "SUCCESS"), ("BROKEN", "FAILED")}, story["point"]
