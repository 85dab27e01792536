"""`/`: what this workspace is, what runs, its jobs, and the way to all the rest."""

from __future__ import annotations

from databricks_bridge.local.pages.asked import Asked, Page
from databricks_bridge.local.pages.document import SHOW_RUN, text
from databricks_bridge.local.pages.job_list import job_rows
from databricks_bridge.local.pages.parts import address, duration, facts, link, soft
from databricks_bridge.local.pages.run_list import is_active, latest, run_rows
from databricks_bridge.local.triggers.scheduler import EVALUATION_INTERVAL_SECONDS
from databricks_bridge.local.triggers.switches import NAMES, read_switches

RUNS, JOBS = 10, 20


def show_overview(asked: Asked) -> Page:
    workspace = asked.workspace
    jobs, runs = workspace.store.jobs(workspace.name), latest(workspace, RUNS)
    switches = read_switches(workspace.store)
    on = [name for name in NAMES if getattr(switches, name)]
    looks = duration(EVALUATION_INTERVAL_SECONDS * workspace.time_scale)
    known = [
        ("Workspace", text(f"{workspace.name}, id {workspace.workspace_id}")),
        ("Metastore", text(workspace.metastore)),
        ("Engine", text(workspace.engine)),
        ("Time scale", text(f"{workspace.time_scale:g}: triggers are looked at about every {looks}")),
        ("Switches", text(", ".join(on) or "none is on")),
    ]
    more = "" if len(jobs) <= JOBS else f"<p>{link(address('local', 'jobs'), f'All {len(jobs):,} jobs')}</p>"
    body = (
        f"<h1>{text(workspace.name)}</h1>"
        '<p id="run" class="said" hidden>The link that you followed names a run: <a></a></p>'
        f"{facts(known, label='This workspace')}"
        f"<h2>Latest runs</h2>{run_rows(runs, label='Latest runs')}"
        + (f"<p>{link(address('local', 'runs'), 'All runs')}</p>" if runs else "")
        + "<h2>Jobs</h2>"
        + (job_rows(workspace, jobs[:JOBS]) + more if jobs else soft("No jobs yet: jobs/create makes one."))
    )
    return Page("Overview", body, "Overview", live=any(map(is_active, runs)), script=SHOW_RUN)
