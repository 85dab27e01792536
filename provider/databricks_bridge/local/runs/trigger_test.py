"""A look at the triggers of a job that starts nothing and keeps nothing: what each would do now, and why."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.starts import is_paused, starts
from databricks_bridge.local.runs.trigger_port import TriggerPort
from databricks_bridge.local.store import Job
from databricks_bridge.local.triggers.evaluation import Evaluator, kind_name
from databricks_bridge.local.triggers.outcome import CannotEvaluate, Fire
from databricks_bridge.local.triggers.scheduler import ends_not_heard, kept_entries
from databricks_bridge.local.triggers.settings import parse_start
from databricks_bridge.local.triggers.switches import read_switches


async def looked_at(workspace: Workspace, job: Job, missing: Callable[[str, str], str | None]) -> list[dict[str, Any]]:
    """For each trigger `would_fire`, `pause_status` and `description`, in the words that its history would have.

    A paused trigger is looked at too; what it would do is what it would do if it were not paused. `missing` says what
    the run-as identity lacks to read a table or volume.
    """
    port = TriggerPort(workspace.store, workspace.runs)
    triggered = next((other for other in port.triggered_jobs() if other.job_id == job.job_id), None)
    present = starts(job.settings)
    evaluator = Evaluator(
        workspace.layout,
        port,
        workspace.time_scale,
        lambda: read_switches(workspace.store),
        lambda _, *what: missing(*what),
    )
    entries = kept_entries(workspace.store.trigger_state(job.job_id), len(present))
    answers = []
    for start, entry in zip(present, entries, strict=True):
        assert triggered is not None, f"job {job.job_id} has a trigger"
        try:
            kind = parse_start(start)
            state = entry.get("state") if entry.get("kind") == kind_name(kind) else None
            heard, listens = int(entry.get("heard", 0)), bool(entry.get("listens"))
            _, ended = ends_not_heard(port, triggered, kind, heard, listens=listens, now=workspace.now())
            now = datetime.fromtimestamp(workspace.now(), UTC)
            outcome = await evaluator.evaluate(triggered, kind, state, ended, now)
            fires, description = isinstance(outcome, Fire), outcome.reason
        except (CannotEvaluate, InvalidArgument) as error:
            fires, description = False, str(error)
        pause = "PAUSED" if is_paused(start) else "UNPAUSED"
        answers.append({"would_fire": fires, "pause_status": pause, "description": description})
    return answers
