"""The page of a run, where `run_page_url` leads: its tasks, iterations and parameters; and it can be ended or repaired."""

from __future__ import annotations

from collections.abc import Iterable

from databricks_bridge.local.pages.asked import Asked, Goto, Page, whole
from databricks_bridge.local.pages.document import text
from databricks_bridge.local.pages.parts import (
    TOKEN_CHARACTERS,
    address,
    button,
    code,
    facts,
    link,
    shown_value,
    soft,
    state,
    table,
    time,
    took,
)
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.for_each import newest_iterations
from databricks_bridge.local.runs.means import latest_attempts
from databricks_bridge.local.runs.model import Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.records import all_attempts_of, get_attempt, get_run
from databricks_bridge.local.server.errors import InvalidState, ResourceDoesNotExist

MOST_ITERATIONS = 100


def show_run(asked: Asked) -> Page:
    """`/local/runs/{run_id}`, of a job run or of one of its task runs."""
    workspace, run = asked.workspace, _existing(asked)
    attempts = all_attempts_of(workspace.store, run.run_id)
    own = [attempt for attempt in attempts if not attempt.parent]
    parents = {attempt.parent for attempt in attempts}
    loops = [attempt for attempt in own if attempt.run_id in parents]
    body = (
        f"<h1>{text(run.name)}</h1><p>Run {run.run_id}: {state(run.outcome, run.phase)}</p>"
        + (f"<p>{text(run.message)}</p>" if run.message else "")
        + f'<div class="row">{_buttons(asked, run)}</div>'
        + f"<h2>Run</h2>{facts(_facts(workspace, run), label='The run')}"
        + f"<h2>Tasks</h2>{_tasks(workspace, own)}"
        + "".join(_iterations(one, newest_iterations(attempts, one.run_id)) for one in loops)
        + f"<h2>Parameters</h2>{_parameters(run)}"
    )
    for token in _tokens(run):
        body = body.replace(token, f"{token[:TOKEN_CHARACTERS]}…")
    # A page that is left open follows the run.
    return Page(f"{run.name}, run {run.run_id}", body, "Runs", live=run.phase is not Phase.DONE)


async def cancel_run(asked: Asked) -> Goto:
    """`POST /local/runs/{run_id}/cancel`."""
    run = _existing(asked)
    asked.workspace.runs.cancel(run.run_id)
    return Goto(address("local", "runs", run.run_id))


async def repair_run(asked: Asked) -> Goto:
    """`POST /local/runs/{run_id}/repair`: what has not succeeded runs again."""
    run = _existing(asked)
    keys = _to_repair(asked.workspace, run)
    if not keys:
        raise InvalidState(
            f"Run {run.run_id} has nothing to repair: it is active, was skipped, or all of it succeeded."
        )
    asked.workspace.runs.repair(run, keys, {})
    return Goto(address("local", "runs", run.run_id))


def _existing(asked: Asked) -> Run:
    """The job run of this id, or the one that has the task run of this id."""
    store, name = asked.workspace.store, asked.workspace.name
    run_id = whole(asked.path["run_id"])
    if run_id is not None:
        attempt = get_attempt(store, run_id)
        run = get_run(store, run_id if attempt is None else attempt.job_run_id, name)
        if run is not None:
            return run
    raise ResourceDoesNotExist(f"{name} has no run {asked.path['run_id']}.")


def _to_repair(workspace: Workspace, run: Run) -> set[str]:
    if run.phase is not Phase.DONE or run.outcome is Outcome.NO_SLOT:
        return set()
    latest = latest_attempts(workspace.store, run)
    return {key for key, attempt in latest.items() if attempt.outcome is not Outcome.SUCCESS}


def _buttons(asked: Asked, run: Run) -> str:
    if run.phase is not Phase.DONE:
        stop = address("local", "runs", run.run_id, "cancel")
        return button(asked.form_value, stop, "Cancel") if run.phase is not Phase.TERMINATING else ""
    if _to_repair(asked.workspace, run):
        return button(
            asked.form_value, address("local", "runs", run.run_id, "repair"), "Repair what failed", quiet=True
        )
    return ""


def _facts(workspace: Workspace, run: Run) -> list[tuple[str, str]]:
    job = "" if run.job_id is None else workspace.store.job(run.job_id, workspace.name)
    shown = "submitted without a job"
    if run.job_id is not None:
        shown = (
            link(address("local", "jobs", run.job_id), run.job_id) if job else f"{run.job_id}, which has been deleted"
        )
    where = f"{workspace.name} ({workspace.workspace_id}), metastore {workspace.metastore}"
    return [
        ("Run id", text(run.run_id)),
        ("Job id", shown),
        ("Workspace", text(where)),
        ("Started by", text(run.trigger)),
        ("Created", time(run.start_time)),
        ("Started", time(run.began_at)),
        ("Ended", time(run.end_time)),
        ("Took", took(run.start_time, run.end_time)),
        *((f"Repair {repair.repair_id}", state(repair.outcome, None)) for repair in run.repairs),
    ]


def _tasks(workspace: Workspace, attempts: Iterable[Attempt]) -> str:
    rows = [
        [
            text(attempt.task_key),
            _state_of(attempt),
            text(attempt.number),
            f'<span class="id">{attempt.run_id}</span>',
            time(attempt.start_time),
            time(attempt.end_time),
        ]
        for attempt in attempts
    ]
    if not rows:
        return soft("None: nothing of it ran.")
    log = f"workspaces/{text(workspace.name)}/runs/TASK_RUN_ID/output.log"
    note = f'<p class="soft">What a notebook printed is in the deployment\'s home: <code>{log}</code></p>'
    head = ("Task", "State", "Attempt", "Task run id", "Started", "Ended")
    return table(rows, head, label="Tasks") + note


def _iterations(task: Attempt, iterations: list[Attempt]) -> str:
    rows = [
        [
            text(one.iteration),
            code(one.input or ""),
            _state_of(one),
            text(one.number),
            f'<span class="id">{one.run_id}</span>',
            took(one.start_time, one.end_time),
        ]
        for one in iterations[:MOST_ITERATIONS]
    ]
    head = ("Iteration", "Input", "State", "Attempt", "Task run id", "Took")
    title = f"Iterations of {task.task_key}, attempt {task.number}"
    more = len(iterations) - len(rows)
    note = soft(f"and {more} more") if more else ""
    return f"<h2>{text(title)}</h2>{table(rows, head, label=title)}{note}"


def _state_of(attempt: Attempt) -> str:
    error = "" if attempt.error is None else f'<div class="code">{text(attempt.error)}</div>'
    return state(attempt.outcome, attempt.phase) + error


def _parameters(run: Run) -> str:
    pairs = [(str(item["name"]), str(item["value"])) for item in run.parameters]
    rows = [[code(name), code(shown_value(name, value))] for name, value in [*pairs, *run.notebook_params.items()]]
    return table(rows, label="Parameters") if rows else soft("None.")


def _tokens(run: Run) -> set[str]:
    """The whole `bridge_token` of the run, wherever else it may stand, such as in an error."""
    given = [*((item["name"], item["value"]) for item in run.parameters), *run.notebook_params.items()]
    return {str(value) for name, value in given if name == "bridge_token" and len(str(value)) > TOKEN_CHARACTERS}
