"""Runs as rows, and the page that lists them all: filtered by job and state, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from databricks_bridge.local.pages.asked import Asked, Page, whole
from databricks_bridge.local.pages.document import text
from databricks_bridge.local.pages.parts import address, link, said, soft, state, table, time, took
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.model import Outcome, Phase, Run
from databricks_bridge.local.runs.records import Cursor, RunFilter, list_runs

PER_PAGE = 50
MOST_LOOKED_AT = 1000
"""How many runs one page goes through in search of those of a state."""
SUCCEEDED = frozenset({Outcome.SUCCESS, Outcome.SUCCESS_WITH_FAILURES})
STATES = {
    "": "any state",
    "active": "active",
    "ended": "ended",
    "succeeded": "succeeded",
    "failed": "failed, skipped or cancelled",
}
_HEAD = ("Run", "State", "Job", "Started by", "Created", "Took")


@dataclass(frozen=True)
class _Found:
    """`scanned` is the last run that was looked at, `more` whether there are others beyond it."""

    runs: list[Run]
    scanned: Run | None
    more: bool


def run_rows(runs: Iterable[Run], *, label: str) -> str:
    """A table of runs."""
    rows = [
        [
            f'<span class="id">{link(address("local", "runs", run.run_id), run.run_id)}</span>',
            state(run.outcome, run.phase),
            text(run.name) if run.job_id is None else link(address("local", "jobs", run.job_id), run.name),
            text(run.trigger),
            time(run.start_time),
            took(run.start_time, run.end_time),
        ]
        for run in runs
    ]
    return table(rows, _HEAD, label=label) if rows else soft("No runs.")


def is_active(run: Run) -> bool:
    return run.phase is not Phase.DONE


def latest(workspace: Workspace, limit: int, job_id: int | None = None) -> list[Run]:
    """The newest runs, the active ones first."""
    active = list_runs(workspace.store, workspace.name, RunFilter(job_id=job_id, active=True), None, limit)
    ended = list_runs(workspace.store, workspace.name, RunFilter(job_id=job_id, active=False), None, limit)
    return [*active, *ended][:limit]


def show_runs(asked: Asked) -> Page:
    """`/local/runs?job=&state=&older=`."""
    job, word = asked.query.get("job", "").strip(), asked.query.get("state", "")
    job_id = whole(job) if job else None
    wrong = "" if not job or job_id is not None else said(f"{job} is no job id; these are the runs of all jobs.", "bad")
    word = word if word in STATES else ""
    cursor = _cursor(asked.query.get("older", ""))
    found = _found(asked.workspace, job_id, word, cursor)
    here = {"job": job_id, "state": word or None}
    pager = []
    if cursor is not None:
        pager.append(link(address("local", "runs", **here), "Newest"))
    if found.more and found.scanned is not None:
        older = f"{found.scanned.start_time}-{found.scanned.run_id}"
        pager.append(link(address("local", "runs", **here, older=older), "Older"))
    body = (
        f"<h1>Runs</h1>{wrong}{_filter(job if job_id is not None else '', word)}"
        f"{run_rows(found.runs, label='Runs')}" + (f"<p>{' · '.join(pager)}</p>" if pager else "")
    )
    return Page("Runs", body, "Runs", live=cursor is None and any(map(is_active, found.runs)))


def _filter(job: str, word: str) -> str:
    options = "".join(
        f'<option value="{name}"{" selected" if name == word else ""}>{text(label)}</option>'
        for name, label in STATES.items()
    )
    return (
        f'<form class="row" action="{address("local", "runs")}"><div><label for="job">Job id</label>'
        f'<input id="job" name="job" inputmode="numeric" value="{text(job)}"></div><div><label for="state">State</label>'
        f'<select id="state" name="state">{options}</select></div><button class="quiet">Show</button></form>'
    )


def _found(workspace: Workspace, job_id: int | None, word: str, cursor: Cursor | None) -> _Found:
    active = {"": None, "active": True}.get(word, False)
    runs: list[Run] = []
    scanned: Run | None = None
    looked_at = 0
    while looked_at < MOST_LOOKED_AT:
        wanted = RunFilter(job_id=job_id, active=active)
        batch = list_runs(workspace.store, workspace.name, wanted, cursor, PER_PAGE + 1)
        for run in batch[:PER_PAGE]:
            if len(runs) == PER_PAGE:
                return _Found(runs, scanned, True)
            scanned = run
            if word not in ("succeeded", "failed") or (run.outcome in SUCCEEDED) == (word == "succeeded"):
                runs.append(run)
        looked_at += PER_PAGE
        if len(batch) <= PER_PAGE:
            return _Found(runs, scanned, False)
        assert scanned is not None, "a full batch has runs"
        if len(runs) == PER_PAGE:
            break
        cursor = Cursor(scanned.start_time, scanned.run_id, newer=False)
    return _Found(runs, scanned, True)


def _cursor(given: str) -> Cursor | None:
    start, _, run = given.partition("-")
    start_time, run_id = whole(start), whole(run)
    return None if start_time is None or run_id is None else Cursor(start_time, run_id, newer=False)
