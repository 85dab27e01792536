"""Jobs as rows, and the page that lists them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from databricks_bridge.local.pages.asked import Asked, Page
from databricks_bridge.local.pages.document import text
from databricks_bridge.local.pages.parts import address, link, mark, soft, state, table, time
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.records import RunFilter, list_runs
from databricks_bridge.local.runs.starts import is_paused, starts
from databricks_bridge.local.store import Job

PER_PAGE = 50
KINDS = {
    "file_arrival": "file arrival",
    "table_update": "table update",
    "job_completion": "job completion",
    "model": "model",
    "periodic": "periodic",
    "schedule": "schedule",
    "continuous": "continuous",
}
"""What starts a job, by the field of its settings that says so."""


def kind_of(start: Mapping[str, Any]) -> str:
    """The plain word for one of `starts`."""
    return next((word for field, word in KINDS.items() if start.get(field) is not None), "unknown")


def job_rows(workspace: Workspace, jobs: Iterable[Job]) -> str:
    """A table of jobs, each with its last run."""
    rows = []
    for job in jobs:
        runs = list_runs(workspace.store, workspace.name, RunFilter(job_id=job.job_id), None, 1)
        present = starts(job.settings)
        rows.append(
            [
                link(address("local", "jobs", job.job_id), job.name),
                state(runs[0].outcome, runs[0].phase) if runs else "",
                text(", ".join(map(kind_of, present)) or "run now alone"),
                pauses(present),
                link(address("local", "runs", runs[0].run_id), runs[0].run_id) if runs else "never ran",
                time(runs[0].start_time) if runs else "",
            ]
        )
    head = ("Job", "Last run", "Started by", "Trigger", "Run", "Created")
    return table(rows, head, label="Jobs")


def pauses(present: list[Mapping[str, Any]]) -> str:
    """Whether what starts a job is paused, in a word."""
    if not present:
        return ""
    paused = sum(map(is_paused, present))
    if not paused:
        return mark("active", "good")
    return mark("paused") if paused == len(present) else mark(f"{paused} of {len(present)} paused")


def show_jobs(asked: Asked) -> Page:
    """`/local/jobs?name=&page=`, newest first."""
    name = asked.query.get("name", "").strip()
    jobs = [job for job in asked.workspace.store.jobs(asked.workspace.name) if name.lower() in job.name.lower()]
    last = max((len(jobs) - 1) // PER_PAGE, 0)
    number = min(asked.number("page") or 0, last)
    shown = jobs[number * PER_PAGE : (number + 1) * PER_PAGE]
    looked_for = f" whose name holds {name!r}" if name else ""
    body = (
        f"<h1>Jobs</h1>{_search(name)}"
        + (job_rows(asked.workspace, shown) if shown else soft(f"There is no job{looked_for}."))
        + pager(number, last, "local", "jobs", name=name or None)
    )
    return Page("Jobs", body, "Jobs")


def pager(number: int, last: int, *place: object, **query: object) -> str:
    """Links to the pages before and after this one; `number` and `last` count from 0."""
    if last == 0:
        return ""
    links = []
    if number > 0:
        links.append(link(address(*place, **query, page=number - 1 or None), "Before"))
    if number < last:
        links.append(link(address(*place, **query, page=number + 1), "Next"))
    return f"<p>Page {number + 1} of {last + 1} · {' · '.join(links)}</p>"


def _search(name: str) -> str:
    return (
        f'<form class="row" action="{address("local", "jobs")}"><div><label for="name">Name holds</label>'
        f'<input id="name" name="name" value="{text(name)}"></div><button class="quiet">Show</button></form>'
    )
