"""The story against the composition: what it makes of services of Airflow that are away, and where it leaves the waves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import cast

import pytest

from databricks_bridge.local.layout import Layout
from databricks_bridge.local.managing import landed_waves
from demo import waves
from demo.airflow_api import COMPONENTS, AirflowApi
from demo.composed import look, remember, settle
from demo.places import DemoFailed, Places
from demo.watch import DagWatch, Watch

RUNS = {"dag_runs": [{"state": "failed", "dag_run_id": "one"}]}


class Airflow:
    """Answers health and the runs of a DAG as it is told, over HTTP. `healths`: what is away, the last one for ever."""

    def __init__(self) -> None:
        self.healths: list[set[str]] = [set()]
        self.runs: tuple[int, object] = (200, {"dag_runs": []})
        airflow = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = (200, airflow.health()) if self.path.endswith("/health") else airflow.runs
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def health(self) -> object:
        away = self.healths.pop(0) if len(self.healths) > 1 else self.healths[0]
        return {name: {"status": "unhealthy" if name in away else "healthy"} for name in COMPONENTS}

    def client(self) -> AirflowApi:
        return AirflowApi(f"http://127.0.0.1:{self.server.server_port}", "admin", "pass-word")

    def look(self) -> list[str]:
        client = self.client()
        return look(client, DagWatch(client, Path("logs")))


@pytest.fixture
def airflow() -> Iterator[Airflow]:
    made = Airflow()
    thread = Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_a_dag_run_that_failed_ends_the_story(airflow: Airflow) -> None:
    assert airflow.look() == []
    airflow.runs = (200, RUNS)
    with pytest.raises(DemoFailed, match=r"logs/dag_id=delays_by_weather/run_id=one"):
        airflow.look()


def test_a_component_that_is_away_is_waited_for(airflow: Airflow) -> None:
    airflow.healths = [{"scheduler"}]
    assert airflow.look() == ["scheduler"]


def test_an_answer_of_500_is_no_end_while_postgres_is_away(airflow: Airflow) -> None:
    airflow.runs = (500, {})
    airflow.healths = [set(), {"metadatabase"}]
    assert airflow.look() == ["metadatabase"]
    airflow.healths = [set()]
    with pytest.raises(DemoFailed, match="500"):
        airflow.look()


def test_an_api_server_that_is_away_is_waited_for(airflow: Airflow) -> None:
    client = airflow.client()
    airflow.server.server_close()
    assert look(client, DagWatch(client, Path("logs"))) == ["api-server"]


@dataclass
class Unsettled:
    """What `Watch` says while something is still to do."""

    left: str | None = None

    def unsettled(self) -> str | None:
        self.left = "gold has flights up to version 4 of 5"
        return self.left


def test_a_wait_in_vain_says_what_was_still_to_do() -> None:
    with pytest.raises(DemoFailed, match=r"in vain: gold has flights up to version 4 of 5"):
        settle(cast("Watch", Unsettled()), 0, lambda: None)


def test_what_a_person_drops_into_a_volume_is_among_the_raw_records(tmp_path: Path) -> None:
    places = Places(tmp_path)
    for workspace, (_, volume) in waves.LANDING.items():
        folder = Layout(places.local).volume_path(workspace, volume)
        (folder / "below").mkdir(parents=True)
        for name in ("wave-1-a.json", "mine.json", "below/more.json", ".half.json", "_SUCCESS"):
            (folder / name).write_text("{}")
    assert {name: [file.name for file in files] for name, files in waves.lying(places).items()} == {
        name: ["more.json", "mine.json", "wave-1-a.json"] for name in ("ops", "met")
    }


def test_the_wave_that_a_person_lands_comes_after_those_of_the_story(tmp_path: Path) -> None:
    for wave, after in ((1, 1), (3, 3), (2, 3)):
        remember(tmp_path, wave)
        assert landed_waves(tmp_path) == after
