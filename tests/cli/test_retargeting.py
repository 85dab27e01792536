"""`subscription retarget`, and `watermark rebuild --dag-id`: a record that goes on for another consumer, or comes back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from databricks_bridge.core.errors import ConsumerMismatch, TargetChanged
from databricks_bridge.core.second_copy import copy_of
from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from tests.cli.conftest import FIRST, Answer, Folder
from tests.core.builders import plan_of
from tests.core.driving import Script
from tests.core.test_around import claimed, committed
from tests.local.local_kit import Api, Notebooks, client

Bridge = Callable[..., Answer]
WHY = ("--why", "the job was made anew", "--by", "ada", "--yes")


def said_to(bridge: Bridge, error: Exception, *more: str) -> Answer:
    """Run the command that the error names, as an author would."""
    words = str(error).partition("databricks-bridge subscription retarget ")[2].partition(" --why")[0].split()
    words = [word for word in words if word not in ("--databricks-conn-id", "CONNECTION")]
    return bridge("subscription", "retarget", *words, *WHY, *more)


@pytest.fixture
def api(ledger: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with deployment_in_thread(tmp_path / "local", ["gold"], engine=InstantEngine(Notebooks().run)) as deployment:
        monkeypatch.setenv("DATABRICKS_HOST", deployment.host("gold"))
        monkeypatch.setenv("DATABRICKS_TOKEN", deployment.token("gold"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield Api(client(deployment, "gold"))


def test_a_job_that_was_made_anew_goes_on(api: Api, ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    job = {
        "name": "gold",
        "tasks": [{"task_key": "a", "condition_task": {"op": "EQUAL_TO", "left": "1", "right": "1"}}],
    }
    job_id = int(api.post("create", **job)["job_id"])
    plan = plan_of()
    plan = replace(plan, target=replace(plan.target, job_id=job_id))
    error = Script(plan).read(FIRST).fails(ConsumerMismatch)
    said = said_to(bridge, error, "--json")
    assert said.code == 0, said
    after = ledger.read()
    assert after is not None
    assert after.consumer == said.json["consumer"]
    assert after.consumer.endswith(f" job {job_id}")
    assert (after.watermarks, after.epoch) == (FIRST.watermarks, said.json["epoch"])
    assert after.epoch != FIRST.epoch
    assert "by ada: the job was made anew" in after.history[-1].what
    by_name = bridge("subscription", "retarget", "delays", "--job-name", "gold", *WHY)
    assert (by_name.code, "already" in by_name.err) == (2, True)


def test_a_job_that_is_not_there_is_refused(api: Api, ledger: Folder, bridge: Bridge) -> None:
    ledger.write(FIRST)
    for words in (("--job-id", "404"), ("--job-name", "nothing")):
        assert bridge("subscription", "retarget", "delays", *words, *WHY).code == 1
    assert ledger.read() == FIRST


def test_not_while_a_claim_is_open_and_the_error_of_the_task_says_so(ledger: Folder, bridge: Bridge) -> None:
    record = ledger.claimed()
    plan = plan_of()
    error = Script(replace(plan, target=replace(plan.target, job_id=8))).read(record).fails(TargetChanged)
    assert "databricks-bridge claim resolve" in str(error)
    assert "databricks-bridge subscription retarget delays --job-id 8" in str(error)
    said = bridge("subscription", "retarget", "delays", "--dag-id", "partner", *WHY)
    assert (said.code, "claim resolve" in said.err) == (1, True)
    assert ledger.read() == record


def test_a_dag_with_another_name_goes_on(ledger: Folder, bridge: Bridge) -> None:
    record = ledger.write(replace(FIRST, consumer="dag partner"))
    plan = plan_of(target=replace(plan_of().target, host="dag partners", job_id=0), around=True)
    error = Script(plan).read(record).fails(ConsumerMismatch)
    assert said_to(bridge, error).code == 0
    after = ledger.read()
    assert after is not None
    assert after.consumer == "dag partners"


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Airflow's variables, over its REST API."""
    stored: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/api/v2/variables/")
            found = name in stored
            body = json.dumps({"key": name, "value": stored[name]} if found else {"detail": "not found"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("DATABRICKS_BRIDGE_AIRFLOW_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("DATABRICKS_BRIDGE_AIRFLOW_TOKEN", "a-token")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield stored
    server.shutdown()
    thread.join()
    server.server_close()


REBUILD = ("watermark", "rebuild", "delays", "--dag-id", "partner", *WHY)


def test_a_lost_record_comes_back_from_its_copy(ledger: Folder, bridge: Bridge, variables: dict[str, str]) -> None:
    record = claimed()
    variables["databricks_bridge.delays"] = copy_of(record)
    said = bridge(*REBUILD)
    assert said.code == 0, said
    assert "its open claim on ops_share.silver.flights (-1, 5] comes back too" in said.out
    back = ledger.read()
    assert back is not None
    assert (back.claim, back.watermarks, back.consumer) == (record.claim, record.watermarks, "dag partner")
    assert bridge(*REBUILD).code == 1, "nothing is lost any more"


def test_without_a_copy_a_person_has_to_say_where_it_was(
    ledger: Folder, bridge: Bridge, variables: dict[str, str]
) -> None:
    said = bridge(*REBUILD)
    assert (said.code, "--mark SOURCE=VERSION" in said.err) == (1, True)
    assert ledger.read() is None
    assert bridge(*REBUILD, "--mark", "flights=7").code == 0
    assert bridge("watermark", "get", "delays", "flights").out == "flights: version 7\n"


def test_a_word_over_the_copy_keeps_the_ids_and_begins_a_new_epoch(
    ledger: Folder, bridge: Bridge, variables: dict[str, str]
) -> None:
    variables["databricks_bridge.delays"] = copy_of(claimed())
    said = bridge(*REBUILD, "--mark", "flights=4")
    assert (said.code, "bring it back without --mark" in said.err) == (1, True)
    variables["databricks_bridge.delays"] = copy_of(committed(claimed()))
    assert bridge(*REBUILD, "--mark", "flights=4").code == 0
    back = ledger.read()
    assert back is not None
    assert str(back.watermarks["flights"]).startswith("TablePosition(version=4, table_id='t1', metadata_id='m1'")
    assert back.epoch != "0"
