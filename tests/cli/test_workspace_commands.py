"""`watermark rebuild` and `claim resolve` against the runs of a real local workspace, whose notebooks answer at once."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from databricks_bridge.core.parameters import names_of_ranges, render
from databricks_bridge.core.positions import Range, TablePosition
from databricks_bridge.core.record import ClaimStatus, Target
from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from tests.cli.conftest import CLAIM, Answer, Folder
from tests.core.builders import NOW, at
from tests.ledgers.warehouse import TOKEN as WAREHOUSE_TOKEN
from tests.ledgers.warehouse import FakeWarehouse, in_thread

Bridge = Callable[..., Answer]
WHY = ("--why", "the bucket was emptied", "--by", "ada", "--yes")
RELEASE = threading.Event()


def flights(from_: int, to: int) -> Range:
    return Range("flights", "main.silver.flights", at(from_), at(to))


async def answer(run: NotebookRun) -> NotebookResult:
    """Fails or waits when the run's parameter `behave` says so."""
    behave = run.parameters["behave"]
    if behave == "wait":
        await asyncio.to_thread(RELEASE.wait, 30)
    return NotebookResult(succeeded=behave != "fail", exit_value=None, error=None, error_trace=None)


@dataclass
class Job:
    """The consumer's job in the local workspace."""

    host: str
    token: str
    job_id: int = 0

    def call(self, method: str, path: str, /, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        sent: dict[str, Any] = {"params": body} if method == "GET" else {"json": body}
        with httpx.Client(base_url=self.host, headers=headers, trust_env=False) as http:
            said = http.request(method, path, **sent)
        assert said.status_code == 200, said.text
        return said.json()

    def run(self, *ranges: Range, behave: str = "", token: str = "", subscription: str = "delays") -> int:
        """Start a run as a claim on these ranges would."""
        given = dict(render(subscription, "0", 0, token or f"{time.monotonic_ns():064d}", ranges, {"behave": behave}))
        return int(self.call("POST", "/api/2.2/jobs/run-now", job_id=self.job_id, job_parameters=given)["run_id"])

    def ended(self, *ranges: Range, **how: Any) -> int:
        """The same, and wait until it is over."""
        run_id = self.run(*ranges, **how)
        self.wait(run_id)
        return run_id

    def wait(self, run_id: int) -> None:
        deadline = time.monotonic() + 30
        while self.call("GET", "/api/2.2/jobs/runs/get", run_id=run_id)["status"]["state"] != "TERMINATED":
            assert time.monotonic() < deadline, f"run {run_id} did not end"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    home = tmp_path_factory.mktemp("local")
    with deployment_in_thread(home, ["gold"], engine=InstantEngine(answer), time_scale=1 / 60) as deployment:
        job = Job(deployment.host("gold"), deployment.token("gold"))
        source = base64.b64encode(b"# Databricks notebook source\n").decode()
        job.call("POST", "/api/2.0/workspace/mkdirs", path="/bridge")
        job.call(
            "POST", "/api/2.0/workspace/import", path="/bridge/n", content=source, format="SOURCE", language="PYTHON"
        )
        yield job
        RELEASE.set()


@pytest.fixture
def job(workspace: Job, ledger: Folder, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Job:
    """A job of its own for each test, and the environment that leads the command to its workspace."""
    RELEASE.clear()
    monkeypatch.setenv("DATABRICKS_HOST", workspace.host)
    monkeypatch.setenv("DATABRICKS_TOKEN", workspace.token)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    names = sorted({*names_of_ranges([flights(0, 1)]), "behave"})
    job_id = workspace.call(
        "POST",
        "/api/2.2/jobs/create",
        name=request.node.name,
        tasks=[{"task_key": "main", "notebook_task": {"notebook_path": "/bridge/n"}}],
        parameters=[{"name": name, "default": ""} for name in names],
        max_concurrent_runs=5,
    )["job_id"]
    return replace(workspace, job_id=job_id)


def test_a_lost_ledger_is_rebuilt_from_the_runs(job: Job, ledger: Folder, bridge: Bridge) -> None:
    first = job.ended(flights(-1, 2))
    job.ended(flights(2, 6), behave="fail")
    job.ended(flights(2, 99), subscription="another")
    last = job.ended(flights(4, 6))
    said = bridge("watermark", "rebuild", "delays", "--job-id", str(job.job_id), *WHY, "--json")
    assert said.code == 0, said
    assert [(one["run_id"], one["ending"]) for one in said.json["runs"]][::2] == [
        (first, "succeeded"),
        (last, "succeeded"),
    ]
    assert [one["kind"] for one in said.json["findings"]] == ["gap"]
    assert said.json["watermarks"]["flights"] == {**at(6).to_json(), "run_id": last}
    record = ledger.read()
    assert record is not None
    assert record.watermarks == {"flights": at(6)}
    assert record.consumer == f"{job.host} job {job.job_id}"
    assert record.epoch == said.json["epoch"] != "0"


def test_it_shows_what_it_found_and_asks(
    job: Job, ledger: Folder, bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = job.ended(flights(-1, 2))
    with open(os.devnull) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        said = bridge("watermark", "rebuild", "delays", "--job-id", str(job.job_id), "--why", "lost")
    assert said.code == 4
    assert f"run {run_id} succeeded in epoch 0: main.silver.flights (-1, 2]" in said.err
    assert "no gap, no overlap" in said.err
    assert f"flights will be at version 2, by run {run_id}" in said.err
    assert job.token not in said.err + said.out
    assert ledger.read() is None


def test_a_checkpoint_that_disagrees_is_shown(job: Job, ledger: Folder, bridge: Bridge, tmp_path: Path) -> None:
    run_id = job.ended(flights(-1, 2))
    words = ("watermark", "rebuild", "delays", "--job-id", str(job.job_id), *WHY, "--json")
    for version, findings in ((2, []), (1, [("disagrees", "flights", run_id)])):
        checkpoint = checkpoint_at(tmp_path / f"checkpoint {version}", version)
        other = (tmp_path / f"ledger {version}").as_uri()
        said = bridge(*words, "--ledger", other, "--checkpoint", f"flights={checkpoint}")
        assert said.code == 0, said
        assert [(one["kind"], one["alias"], one["run_id"]) for one in said.json["findings"]] == findings
    assert bridge(*words, "--checkpoint", "flights").code == 2
    assert bridge(*words, "--control-table", ledger.url).code == 2


def checkpoint_at(folder: Path, version: int) -> str:
    """A streaming checkpoint that has wholly processed this version; its URL."""
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True)
    offset = {"reservoirId": "m1", "reservoirVersion": version + 1, "index": -1, "isStartingVersion": False}
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    (folder / "commits" / "0").write_text("v1")
    return folder.as_uri()


@pytest.fixture
def warehouse(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWarehouse]:
    """A SQL warehouse whose control table says what is written in it, behind the connection `ops`."""
    with in_thread() as served:
        connection = {"conn_type": "databricks", "host": served.url, "password": WAREHOUSE_TOKEN}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
        columns = "(job STRING, source STRING, last_version BIGINT, updated_at TIMESTAMP)"
        served.sql(f"CREATE TABLE lake.bridge.job_watermarks {columns}")
        yield served


def test_runs_checkpoint_and_control_table_are_held_against_each_other(
    job: Job, ledger: Folder, bridge: Bridge, warehouse: FakeWarehouse, tmp_path: Path
) -> None:
    run_id = job.ended(flights(-1, 4))
    rows = "('delays', 'flights', 3, now()), ('delays', 'weather', 9, now()), ('other', 'flights', 1, now())"
    warehouse.sql(f"INSERT INTO lake.bridge.job_watermarks VALUES {rows}")
    words = ("watermark", "rebuild", "delays", "--job-id", str(job.job_id), "--why", "lost", "--json")
    words += ("--control-table", "control-table:ops/wh-1/lake.bridge")
    words += ("--checkpoint", f"flights={checkpoint_at(tmp_path / 'behind', 2)}")
    words += ("--checkpoint", f"flights={checkpoint_at(tmp_path / 'same', 4)}")
    asked = bridge(*words)
    assert (asked.code, ledger.read()) == (4, None), asked
    control = "the control table `lake`.`bridge`.job_watermarks"
    for said in (
        f"run {run_id} succeeded in epoch 0: main.silver.flights (-1, 4]",
        f"disagrees of flights at run {run_id}: {control} says version 3, the runs say version 4",
        f"disagrees of weather at run 0: {control} says version 9, no run shows it",
        "behind says version 2, the runs say version 4",
        "same agrees: flights at version 4",
        f"flights will be at version 4, by run {run_id}",
    ):
        assert said in asked.err
    done = bridge(*words, "--yes", "--mark", "flights=2", "--mark", "weather=9", "--by", "ada")
    assert done.code == 0, done
    assert [one["agrees"] for one in done.json["witnesses"]] == [False, False, False, True]
    assert len(done.json["findings"]) == 3
    record = ledger.read()
    assert record is not None
    assert record.watermarks == {"flights": TablePosition(2, "t1", "m1"), "weather": TablePosition(9)}


def test_a_renamed_subscription_is_rebuilt_from_the_runs_of_both_names(
    job: Job, ledger: Folder, bridge: Bridge
) -> None:
    job.ended(flights(-1, 4), subscription="old")
    words = ("watermark", "rebuild", "delays", "--job-id", str(job.job_id), *WHY)
    lost = bridge(*words)
    assert (lost.code, "--mark SOURCE=VERSION" in lost.err) == (1, True), lost
    assert bridge(*words, "--mark", "flights").code == 2
    assert bridge(*words, "--formerly", "old").code == 0
    assert ledger.read().watermarks == {"flights": at(4)}  # type: ignore[union-attr]


def test_nothing_is_rebuilt_over_a_record_or_while_a_run_is_active(job: Job, ledger: Folder, bridge: Bridge) -> None:
    run_id = job.run(flights(-1, 2), behave="wait")
    words = ("watermark", "rebuild", "delays", "--job-id", str(job.job_id), *WHY)
    said = bridge(*words)
    assert (said.code, f"run {run_id} of job {job.job_id}" in said.err) == (1, True), said
    RELEASE.set()
    job.wait(run_id)
    assert bridge(*words).code == 0
    again = bridge(*words)
    assert again.code == 1
    assert "nothing is lost" in again.err


def test_a_job_is_found_by_its_name(job: Job, ledger: Folder, bridge: Bridge, request: pytest.FixtureRequest) -> None:
    job.ended(flights(-1, 2))
    said = bridge("watermark", "rebuild", "delays", "--job-name", request.node.name, *WHY)
    assert said.code == 0, said
    assert bridge("watermark", "rebuild", "delays", "--job-name", "no such job", *WHY).code == 1


def test_runs_that_name_nothing_of_ours_rebuild_nothing(job: Job, ledger: Folder, bridge: Bridge) -> None:
    said = bridge("watermark", "rebuild", "delays", "--job-id", str(job.job_id), *WHY, "--json")
    assert said.code == 1
    assert said.json["error"]["kind"] == "LedgerLost"


def claim_of(job: Job, ledger: Folder, **changes: Any) -> None:
    target = Target(job.host, "1001", job.job_id)
    ledger.claimed(replace(CLAIM, target=target, status=ClaimStatus.UNDECIDED, created_at=NOW, **changes))


def test_a_claim_is_resolved_after_a_look_at_its_run(job: Job, ledger: Folder, bridge: Bridge) -> None:
    run_id = job.ended(flights(5, 8), behave="fail")
    claim_of(job, ledger, run_id=run_id)
    said = bridge("claim", "resolve", "delays", "--as", "failed", *WHY, "--json")
    assert said.code == 0, said
    assert said.json["run"].startswith(f"run {run_id} ended: ")
    assert ledger.read().claim is None  # type: ignore[union-attr]


def test_a_claim_whose_run_is_gone_can_be_resolved(job: Job, ledger: Folder, bridge: Bridge) -> None:
    claim_of(job, ledger, run_id=42)
    said = bridge("claim", "resolve", "delays", "--as", "succeeded", *WHY, "--json")
    assert said.json["run"] == "run 42 is gone"
    assert ledger.read().watermarks["flights"] == at(8)  # type: ignore[union-attr]


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted yet"])
def test_a_claim_whose_run_is_active_is_not_resolved(job: Job, ledger: Folder, bridge: Bridge, noted: bool) -> None:
    run_id = job.run(flights(5, 8), behave="wait", token=CLAIM.token)
    claim_of(job, ledger, run_id=run_id if noted else None)
    before = ledger.read()
    said = bridge("claim", "resolve", "delays", "--as", "void", *WHY)
    assert said.code == 1
    assert f"run {run_id} of the claim of subscription 'delays' is active" in said.err
    assert ledger.read() == before
    RELEASE.set()


def test_another_workspace_is_not_asked(job: Job, ledger: Folder, bridge: Bridge) -> None:
    ledger.claimed()
    said = bridge("claim", "resolve", "delays", "--as", "void", *WHY)
    assert said.code == 2
    assert f"is in http://127.0.0.1:1, not in {job.host}" in said.err


def test_a_wrong_token_is_an_error_that_does_not_show_it(
    job: Job, ledger: Folder, bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_TOKEN", "dapi-wrong-secret")
    said = bridge("watermark", "rebuild", "delays", "--job-id", str(job.job_id), *WHY)
    assert said.code == 1
    assert "dapi-wrong-secret" not in said.err + said.out


def test_what_airflow_logs_is_not_in_the_answer(job: Job, ledger: Folder, warehouse: FakeWarehouse) -> None:
    """A connection makes the command import Airflow, whose log lines go to what is stdout then."""
    program = (
        "import sys, logging\n"
        "from databricks_bridge.hooks import databricks\n"
        "real = databricks.open_workspace\n"
        "async def loud(*given):\n"
        "    workspace = await real(*given)\n"
        "    logging.getLogger('databricks_bridge').error('so loud')\n"
        "    print('so loud')\n"
        "    return workspace\n"
        "databricks.open_workspace = loud\n"
        "from databricks_bridge.cli import main\n"
        "sys.exit(main(['status', '--json', '--ledger', 'control-table:ops/wh-1/lake.bridge']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["subscriptions"] == []
    assert "so loud" in done.stderr


@pytest.mark.parametrize("minutes", [-15, 15], ids=["the claim's clock is behind", "the claim's clock is ahead"])
@pytest.mark.parametrize("status", [ClaimStatus.OPEN, ClaimStatus.UNDECIDED])
@pytest.mark.parametrize("behave", ["wait", "fail", "done"])
def test_void_is_refused_while_there_is_a_run_with_the_claim_s_token(
    job: Job, ledger: Folder, bridge: Bridge, behave: str, status: ClaimStatus, minutes: int
) -> None:
    """The clocks of who wrote the claim and of the workspace are 15 minutes apart, in both directions."""
    run_id = job.run(flights(5, 8), behave="wait", token=CLAIM.token) if behave == "wait" else None
    run_id = run_id or job.ended(flights(5, 8), behave="fail" if behave == "fail" else "", token=CLAIM.token)
    started = datetime.fromtimestamp(job.call("GET", "/api/2.2/jobs/runs/get", run_id=run_id)["start_time"] / 1000, UTC)
    target = Target(job.host, "1001", job.job_id)
    claim = replace(CLAIM, target=target, status=status, run_id=None, created_at=started + timedelta(minutes=minutes))
    ledger.claimed(claim)
    before = ledger.read()
    said = bridge("claim", "resolve", "delays", "--as", "void", *WHY)
    RELEASE.set()
    assert said.code == 1, said
    assert f"run {run_id} of the claim of subscription 'delays'" in said.err
    assert ledger.read() == before


def test_a_claim_whose_noted_run_is_gone_is_not_void_while_another_carries_its_token(
    job: Job, ledger: Folder, bridge: Bridge
) -> None:
    run_id = job.ended(flights(5, 8), token=CLAIM.token)
    claim_of(job, ledger, run_id=42)
    said = bridge("claim", "resolve", "delays", "--as", "void", *WHY)
    assert said.code == 1
    assert f"run {run_id} of the claim" in said.err
