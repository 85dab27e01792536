"""The page of a job: what it is, what starts it, its runs; and run now, pause, resume, and a look at its triggers."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any

from databricks_bridge.local.pages.asked import Asked, Goto, Page, whole
from databricks_bridge.local.pages.document import text
from databricks_bridge.local.pages.parts import (
    address,
    button,
    code,
    duration,
    facts,
    link,
    mark,
    shown_value,
    soft,
    table,
    time,
    without_empty,
)
from databricks_bridge.local.pages.run_list import is_active, latest, run_rows
from databricks_bridge.local.pages.triggers import holds_until, trigger_sections
from databricks_bridge.local.runs.admission import Order, max_concurrent_runs, queue_enabled
from databricks_bridge.local.runs.starts import starts
from databricks_bridge.local.runs.trigger_test import looked_at
from databricks_bridge.local.server.errors import InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.job_names import run_as_name
from databricks_bridge.local.server.trigger_limits import refuse_what_cannot_be_watched
from databricks_bridge.local.server.unity_catalog_grants import missing_privilege
from databricks_bridge.local.store import Job

RUNS = 20
_WHAT = ("notebook_path", "python_file", "job_id", "path", "inputs", "op")
"""Fields of a task that say what it does, where one line has to be enough."""
_TASK_FIELDS = ("task_key", "description", "depends_on", "run_if")


def show_job(asked: Asked) -> Page:
    """`/local/jobs/{job_id}`."""
    return _page(asked, _existing(asked))


async def run_now(asked: Asked) -> Goto:
    """`POST /local/jobs/{job_id}/run-now`: a run with the job's own parameters."""
    job = _existing(asked)
    if not job.settings["tasks"]:
        raise InvalidParameterValue(f"Job {job.job_id} has no tasks to run")
    run = asked.workspace.runs.create(asked.workspace, Order(job_id=job.job_id, settings=job.settings))
    return Goto(address("local", "runs", run.run_id))


async def pause(asked: Asked) -> Goto:
    """`POST /local/jobs/{job_id}/pause`."""
    return _set(asked, "PAUSED")


async def resume(asked: Asked) -> Goto:
    """`POST /local/jobs/{job_id}/resume`."""
    return _set(asked, "UNPAUSED")


async def test_trigger(asked: Asked) -> Page:
    """`POST /local/jobs/{job_id}/test-trigger`: what each trigger would do now. It starts nothing."""
    job = _existing(asked)
    answers = await looked_at(
        asked.workspace,
        job,
        lambda kind, name: missing_privilege(asked.workspace, kind, name, run_as_name(asked.workspace, job.settings)),
    )
    rows = [
        [
            text(number),
            mark("would fire", "good") if answer["would_fire"] else mark("would not fire"),
            text(answer["description"] + (" (it is paused)" if answer["pause_status"] == "PAUSED" else "")),
        ]
        for number, answer in enumerate(answers, start=1)
    ]
    found = table(rows, ("Trigger", "It", "Why"), label="Test") if rows else soft("The job has no trigger.")
    return _page(asked, job, f'<div class="said" role="status"><p>A look that started nothing:</p>{found}</div>')


def _existing(asked: Asked) -> Job:
    job_id = whole(asked.path["job_id"])
    job = None if job_id is None else asked.workspace.store.job(job_id, asked.workspace.name)
    if job is None:
        raise ResourceDoesNotExist(f"{asked.workspace.name} has no job {asked.path['job_id']}.")
    return job


def _set(asked: Asked, status: str) -> Goto:
    """Pause or resume one of the job's triggers; what came during a pause is no news afterwards."""
    workspace, job = asked.workspace, _existing(asked)
    settings = _with_status(job.settings, whole(asked.form.get("trigger", "0")), status)
    refuse_what_cannot_be_watched(workspace, settings, job.job_id)
    workspace.store.change_job(job.job_id, settings, int(workspace.now() * 1000))
    workspace.runs.promote(job.job_id)
    return Goto(address("local", "jobs", job.job_id))


def _with_status(settings: Mapping[str, Any], index: int | None, status: str) -> dict[str, Any]:
    changed = copy.deepcopy(dict(settings))
    present = starts(changed)
    if index is None or index >= len(present):
        raise InvalidParameterValue("The job has no such trigger any more.")
    # In `starts` a schedule and a continuous job are wrapped; what is kept is the part inside.
    inside = [start.get("schedule") or start.get("continuous") for start in present]
    own = changed.get("triggers") is None and changed.get("trigger") is None
    kept: Any = inside[index] if own else present[index]
    kept["pause_status"] = status
    return changed


def _page(asked: Asked, job: Job, test: str = "") -> Page:
    runs = latest(asked.workspace, RUNS, job.job_id)
    place = ("local", "jobs", job.job_id)
    buttons = button(asked.form_value, address(*place, "run-now"), "Run now")
    if starts(job.settings):
        buttons += button(asked.form_value, address(*place, "test-trigger"), "Test trigger", quiet=True)
    all_runs = f"<p>{link(address('local', 'runs', job=job.job_id), 'All runs of this job')}</p>" if runs else ""
    body = (
        f'<h1>{text(job.name)}</h1><p class="soft">Job {job.job_id}</p><div class="row">{buttons}</div>{test}'
        f"{trigger_sections(asked, job)}<h2>Runs</h2>{run_rows(runs, label='Runs of this job')}{all_runs}"
        f"<h2>Tasks</h2>{_tasks(job.settings.get('tasks', ()))}<h2>Settings</h2>{_settings(asked, job)}"
    )
    live = not test and (any(map(is_active, runs)) or holds_until(asked, job))
    return Page(job.name, body, "Jobs", live=live)


def _tasks(tasks: Iterable[Mapping[str, Any]]) -> str:
    rows = []
    for task in tasks:
        kind = next((name for name in task if name.endswith("_task")), "")
        after = [str(one.get("task_key", "")) for one in task.get("depends_on", ())]
        rows.append(
            [
                text(task.get("task_key", "")),
                text(kind.removesuffix("_task").replace("_", " ")),
                code(_what(task.get(kind, {}))),
                text(", ".join(after)),
                text(task.get("run_if", "")),
            ]
        )
    return (
        table(*without_empty(rows, ("Task", "Kind", "What", "After", "Run if")), label="Tasks")
        if rows
        else soft("None.")
    )


def _what(config: Mapping[str, Any]) -> str:
    if "file" in config and isinstance(config["file"], dict):
        config = config["file"]
    if "op" in config:
        return f"{config.get('left', '')} {config['op']} {config.get('right', '')}"
    return next((str(config[name]) for name in _WHAT if name in config), "")


def _settings(asked: Asked, job: Job) -> str:
    settings = job.settings
    parameters = "<br>".join(
        code(f"{one.get('name')} = {shown_value(str(one.get('name')), one.get('default', ''))}")
        for one in settings.get("parameters", ())
    )
    run_as = ", ".join(map(str, settings.get("run_as", {}).values()))
    limit = settings.get("timeout_seconds") or 0
    known = [
        ("Created", time(job.created_time)),
        ("Runs as", text(run_as or asked.workspace.user_name)),
        ("Runs at once", text(max_concurrent_runs(settings))),
        ("Queue", text("on" if queue_enabled(settings) else "off: a run too many is skipped")),
        ("Time limit", text(duration(limit) if limit else "none")),
        ("Parameters", parameters or text("none")),
        ("Tags", text(", ".join(f"{key}: {value}" for key, value in settings.get("tags", {}).items()))),
    ]
    whole_text = json.dumps(_cut(settings), indent=2, ensure_ascii=False)
    return (
        facts(known, label="Settings")
        + f'<details><summary>As jobs/get has them</summary><div class="wide" tabindex="0" role="region" '
        f'aria-label="Settings as JSON"><pre class="code">{text(whole_text)}</pre></div></details>'
    )


def _cut(value: Any) -> Any:
    """The same with every `bridge_token` cut short."""
    if isinstance(value, Mapping):
        named = str(value.get("name"))
        return {
            key: shown_value(named if key in ("default", "value") else key, inner)
            if isinstance(inner, str)
            else _cut(inner)
            for key, inner in value.items()
        }
    return [_cut(item) for item in value] if isinstance(value, list) else value
