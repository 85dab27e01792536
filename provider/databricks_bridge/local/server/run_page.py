"""`GET /local/runs/{run_id}`: what there is to see of a run, for a person. Where `run_page_url` leads.

It asks for no token, as a browser has none to send: so it is served to this machine only, and holds no credentials.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.model import Attempt, Outcome, Phase, Run
from databricks_bridge.local.runs.records import attempts_of, get_attempt, get_run
from databricks_bridge.local.server.html_page import document, text

TOKEN_CHARACTERS = 12
"""How much of a `bridge_token` is shown: enough to tell two of them apart."""
_GOOD = frozenset({Outcome.SUCCESS, Outcome.SUCCESS_WITH_FAILURES})
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


def router(workspace: Workspace) -> APIRouter:
    """The page of each run of one workspace."""
    routes = APIRouter()

    @routes.get("/local/runs/{run_id}", response_class=HTMLResponse)
    async def run(request: Request, run_id: int) -> HTMLResponse:
        if not _from_here(request):
            return HTMLResponse(document("Not here", "<h1>Not here</h1><p>Open it as 127.0.0.1.</p>"), 403, _HEADERS)
        found = _find(workspace, run_id)
        if found is None:
            page = document(f"Run {run_id}", f"<h1>No run {run_id}</h1><p>{text(workspace.name)} has no such run.</p>")
            return HTMLResponse(page, 404, _HEADERS)
        return HTMLResponse(_page(workspace, found), headers=_HEADERS)

    return routes


def _from_here(request: Request) -> bool:
    """Called from this machine, and by its address: a name that another site had resolve to it is not enough."""
    client = "" if request.client is None else request.client.host
    return request.url.hostname in ("127.0.0.1", "localhost") and ipaddress.ip_address(client).is_loopback


def _find(workspace: Workspace, run_id: int) -> Run | None:
    """The job run of this id, or the one that has the task run of this id."""
    if not 0 < run_id < 2**63:
        return None
    attempt = get_attempt(workspace.store, run_id)
    return get_run(workspace.store, run_id if attempt is None else attempt.job_run_id, workspace.name)


def _page(workspace: Workspace, run: Run) -> str:
    times = [
        ("Created", _time(run.start_time)),
        ("Started", _time(run.began_at)),
        ("Ended", _time(run.end_time)),
        ("Took", f"{(run.end_time - run.start_time) / 1000:.1f} s" if run.end_time else ""),
    ]
    facts = [
        ("Run id", text(run.run_id)),
        ("Job id", text(run.job_id or "submitted without a job")),
        (
            "Workspace",
            f"{text(workspace.name)} ({text(workspace.workspace_id)}), metastore {text(workspace.metastore)}",
        ),
        ("Started by", text(run.trigger)),
        *((name, value) for name, value in times if value),
        *((f"Repair {repair.repair_id}", _state(repair.outcome, None)) for repair in run.repairs),
    ]
    attempts = attempts_of(workspace.store, run.run_id)
    body = (
        f"<h1>{text(run.name)}</h1><p>Run {run.run_id}: {_state(run.outcome, run.phase)}</p>"
        + (f"<p>{text(run.message)}</p>" if run.message else "")
        + f"<h2>Run</h2>{_table(([name, value] for name, value in facts))}"
        + f"<h2>Tasks</h2>{_tasks(workspace, attempts)}"
        + f"<h2>Parameters</h2>{_parameters(run)}"
    )
    # A page that is left open follows the run.
    head = "" if run.phase is Phase.DONE else '<meta http-equiv="refresh" content="5">'
    page = document(f"{run.name}, run {run.run_id}: local, not Databricks", body, head=head)
    # Whoever passes a credential to a notebook does not want it here.
    for secret in (workspace.credentials.token, workspace.credentials.client_secret):
        page = page.replace(secret, "(hidden)") if secret else page
    return page


def _tasks(workspace: Workspace, attempts: Iterable[Attempt]) -> str:
    rows = [
        [
            text(attempt.task_key),
            f'<span class="id">{attempt.run_id}</span>',
            text(attempt.number),
            _state(attempt.outcome, attempt.phase) + _error(attempt),
            f'<span class="id">{_time(attempt.start_time)}</span>',
            f'<span class="id">{_time(attempt.end_time)}</span>',
        ]
        for attempt in attempts
    ]
    if not rows:
        return '<p class="soft">None: nothing of it ran.</p>'
    log = f"workspaces/{text(workspace.name)}/runs/TASK_RUN_ID/output.log"
    note = f'<p class="soft">What a notebook printed is in the deployment\'s home: <code>{log}</code></p>'
    return _table(rows, ("Task", "Task run id", "Attempt", "State", "Started", "Ended")) + note


def _error(attempt: Attempt) -> str:
    return "" if attempt.error is None else f'<div class="code">{text(attempt.error)}</div>'


def _parameters(run: Run) -> str:
    pairs = [(str(item["name"]), str(item["value"])) for item in run.parameters]
    rows = [
        [f'<span class="code">{text(name)}</span>', f'<span class="code">{text(_shown(name, value))}</span>']
        for name, value in [*pairs, *run.notebook_params.items()]
    ]
    return _table(rows) if rows else '<p class="soft">None.</p>'


def _shown(name: str, value: str) -> str:
    if name == "bridge_token" and len(value) > TOKEN_CHARACTERS:
        return f"{value[:TOKEN_CHARACTERS]}…"
    return value


def _table(rows: Iterable[Iterable[str]], head: Iterable[str] = ()) -> str:
    """Cells are HTML. Without a head the first cell of each row is its name."""
    names = "".join(f"<th>{text(name)}</th>" for name in head)
    lines = [f"<tr>{names}</tr>"] if names else []
    for first, *others in rows:
        mark = "td" if names else "th"
        lines.append(f"<tr><{mark}>{first}</{mark}>{''.join(f'<td>{cell}</td>' for cell in others)}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _state(outcome: Outcome | None, phase: Phase | None) -> str:
    """The outcome of what has ended, else the phase it is in."""
    if outcome is None:
        return f'<span class="state busy">{text(phase or Phase.RUNNING)}</span>'
    return f'<span class="state {"good" if outcome in _GOOD else "bad"}">{text(outcome)}</span>'


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if ms else ""
