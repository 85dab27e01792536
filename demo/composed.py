"""The demo's story against the services of docker-compose.yaml: lands the waves, waits for gold, prints the proof.

    docker compose exec local python -m demo.composed

It kills nothing, and may be run again: what has landed is not landed twice, and the proof is computed anew. A service of
Airflow that is away meanwhile, because it is started anew, is waited for.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx

from demo import evidence, history, waves
from demo.airflow_api import AirflowApi
from demo.airflow_home import USER
from demo.databricks_api import Workspace, succeeded, workspaces
from demo.history import Facts, Verdict
from demo.places import GOLD_JOB, DemoFailed, Places
from demo.processes import wait_until
from demo.watch import DagWatch, Watch

PLACES = Places(Path("/lab"))
PASSWORD = Path("/secrets/admin")
AIRFLOW = "http://api-server:8080"
LOGS = Path("/opt/airflow/logs")
"""In the containers of Airflow."""
PATIENCE = 400
SAY_EVERY = 10.0


def main() -> int:
    """0 when the proof holds, 1 when it does not or the services do not get there."""
    try:
        found = workspaces(PLACES.deployment)
        airflow = AirflowApi(AIRFLOW, USER, PASSWORD.read_text().strip())
        watch = Watch(PLACES, found, lambda: waves.lying(PLACES))
        meanwhile = _meanwhile(watch, airflow, DagWatch(airflow, LOGS))
        for wave in waves.STORY:
            _land(found, wave, meanwhile)
        settle(watch, PATIENCE, meanwhile)
        wait_until(lambda: not airflow.unhealthy(), "all of Airflow to be healthy", PATIENCE, meanwhile)
        DagWatch(airflow, LOGS).check()
        facts = evidence.gather(PLACES, found, airflow, waves.lying(PLACES))
    except (DemoFailed, OSError) as failure:
        print(failure, file=sys.stderr)
        return 1
    verdict = told_here(facts, history.judge(facts))
    for line in _shown(facts, verdict):
        print(line)
    print(verdict.line, flush=True)
    return 0 if verdict.holds else 1


def settle(watch: Watch, seconds: float, meanwhile: Callable[[], None]) -> None:
    """Wait until all that lies in the volumes has reached gold. Raises DemoFailed, with what has not."""
    try:
        wait_until(lambda: watch.unsettled() is None, "all that landed to reach gold", seconds, meanwhile)
    except DemoFailed as failure:
        raise DemoFailed(f"{failure}: {watch.left}" if watch.left else str(failure)) from None


def told_here(facts: Facts, verdict: Verdict) -> Verdict:
    """The verdict without what this story does not do: it kills no task, and holds no run while data comes."""
    absent = {*history.killed_task(facts), *history.overtaken_run(facts)}
    return dataclasses.replace(verdict, findings=tuple(line for line in verdict.findings if line not in absent))


def _shown(facts: Facts, verdict: Verdict) -> Iterator[str]:
    """What was checked here, or what was found against it."""
    for line in verdict.committed:
        part = line.range
        yield f"  {part.alias} ({part.start}, {part.end}] by run {line.run.run_id}, generation {line.run.generation}"
    for finding in verdict.findings:
        yield f"  x {finding}"
    if verdict.holds:
        yield f"  {len(facts.fired_runs)} bronze and silver runs, each started by Databricks' own trigger"
        yield f"  {len(facts.audit_runs)} audit runs, at most one for each bronze run"
        yield f"  gold: {len(facts.gold)} hours, all equal to gold computed once from all raw records by plain pandas"


def _land(found: Mapping[str, Workspace], wave: int, meanwhile: Callable[[], None]) -> None:
    if _landed(found, wave):
        print(f"wave {wave} has landed before", flush=True)
        remember(PLACES.local, wave)
        return
    before = _committed(found)
    print(f"wave {wave}: {waves.land(dict(found), wave)} files in ops and met", flush=True)
    remember(PLACES.local, wave)
    wait_until(lambda: _committed(found) > before, f"a gold run after wave {wave}", PATIENCE, meanwhile)


def remember(home: Path, wave: int) -> None:
    """`databricks-bridge local wave` and the pages go on after this wave."""
    kept = home / "waves.json"
    if not kept.exists() or json.loads(kept.read_text())["landed"] < wave:
        kept.write_text(json.dumps({"landed": wave}))


def _landed(found: Mapping[str, Workspace], wave: int) -> bool:
    return all(
        file.name in there
        for name in waves.LANDING
        for there in [_names(found[name])]
        for file in waves.files(name, wave)
    )


def _names(workspace: Workspace) -> set[str]:
    """The files that have landed in a workspace."""
    _, volume = waves.LANDING[workspace.name]
    return set(_listed(workspace, f"/api/2.0/fs/directories{volume}"))


def _listed(workspace: Workspace, path: str) -> Iterator[str]:
    query: dict[str, str] = {}
    while True:
        page = workspace.get(path, **query)
        yield from (entry["name"] for entry in page.get("contents", []))
        if not page.get("next_page_token"):
            return
        query["page_token"] = page["next_page_token"]


def _committed(found: Mapping[str, Workspace]) -> int:
    return sum(succeeded(run) for run in found["analytics"].runs(GOLD_JOB))


def _meanwhile(watch: Watch, airflow: AirflowApi, dags: DagWatch) -> Callable[[], None]:
    """Says now and then how far it is, and fails when a DAG run has failed."""
    said = time.monotonic()

    def tell() -> None:
        nonlocal said
        away = look(airflow, dags)
        if time.monotonic() - said >= SAY_EVERY:
            said = time.monotonic()
            waiting = f"Airflow's {', '.join(away)} not healthy; " if away else ""
            left = f"; {watch.left}" if watch.left else ""
            print(f"  {waiting}{watch.describe()}{left}", flush=True)

    return tell


def look(airflow: AirflowApi, dags: DagWatch) -> list[str]:
    """The components of Airflow that are away. Raises DemoFailed when a DAG run has failed."""
    away = airflow.unhealthy()
    if not away:
        try:
            dags.check()
        except httpx.TransportError:
            return ["api-server"]
        except DemoFailed:
            # An answer of 500 is none while Postgres is away.
            away = airflow.unhealthy()
            if not away:
                raise
    return away


if __name__ == "__main__":
    sys.exit(main())
