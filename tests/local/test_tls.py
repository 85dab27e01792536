"""TLS of a local deployment: its authority, its certificates, and every client of it that has to trust them."""

from __future__ import annotations

import json
import logging
import os
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from databricks_bridge.cli import main
from databricks_bridge.core.errors import Unavailable
from databricks_bridge.local import command
from databricks_bridge.local.deployment import DeploymentError, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.managing import ready_file
from databricks_bridge.local.rest import Rest
from databricks_bridge.local.testing import LocalWorkspace, connection_to
from databricks_bridge.local.tls import NoTls, certificates
from databricks_bridge.local.workspace_spec import WorkspaceSpec
from tests.local.local_kit import Notebooks, eventually

LAB = """\
tls: true
workspaces:
  ops: {catalogs: {main: {landing: [files]}}, address: 127.0.0.2}
waves:
  - ops: {/Volumes/main/landing/files/: one.json}
"""
# `local up`, with notebooks that succeed at once instead of Spark.
WITHOUT_SPARK = """
import sys
from databricks_bridge.local import command
from databricks_bridge.local.engine import InstantEngine, NotebookResult
command._Spark = lambda root: InstantEngine(lambda run: NotebookResult(True, None, None, None))
sys.exit(command.main(sys.argv[1:]))
"""
# What a worker does, in a process that began with the two variables.
CLIENTS = """
import asyncio, json, sys
import requests
from airflow.providers.databricks.hooks.databricks import DatabricksHook
from databricks.sdk import WorkspaceClient
from databricks_bridge.core.errors import BadAnswer
from databricks_bridge.hooks.databricks import open_workspace

host, token = sys.argv[1:]
said = {}
said["requests"] = requests.get(host + "/local/health").status_code
said["sdk"] = WorkspaceClient(host=host, token=token).current_user.me().user_name
said["official"] = DatabricksHook("ops", retry_limit=1)._do_api_call(("GET", "2.2/jobs/list"))

async def waits():
    async with DatabricksHook("ops", retry_limit=1) as hook:
        said["official, async"] = await hook._a_do_api_call(("GET", "2.2/jobs/list"))
    async with await open_workspace("ops") as workspace:
        said["ours"] = await workspace.get("/api/2.2/jobs/list")

asyncio.run(waits())
print(json.dumps(said))
"""


def engine() -> InstantEngine:
    return InstantEngine(Notebooks().run)


@dataclass(frozen=True)
class Up:
    home: Path
    process: subprocess.Popen[bytes]
    log: Path


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """`local up` with a lab that says `tls: true`, in a process of its own."""
    file, home, log = tmp_path / "lab.yaml", tmp_path / ".lab", tmp_path / "out"
    file.write_text(LAB)
    (tmp_path / "one.json").write_text("{}")
    with log.open("wb") as output:
        start = [sys.executable, "-c", WITHOUT_SPARK, "--file", str(file)]
        process = subprocess.Popen(start, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        eventually(lambda: ready_file(home).exists() or process.poll() is not None, seconds=60)
        assert process.poll() is None, log.read_text()
        yield Up(home, process, log)
    finally:
        process.kill()
        process.wait()


def test_the_commands_and_the_clients_of_a_deployment_with_tls(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    described = json.loads(Layout(up.home).deployment_file.read_text())
    host, token = described["workspaces"]["ops"]["host"], described["workspaces"]["ops"]["token"]
    assert host.startswith("https://127.0.0.2:")
    assert f"its clients have to trust {described['ca_file']}" in up.log.read_text()
    where = ["--home", str(up.home)]

    assert main(["local", "status", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workspaces"]["ops"]["state"] == "up"
    assert main(["local", "fault", "add", "clock", "--seconds", "1h", *where]) == 0
    assert main(["local", "fault", "list", *where]) == 0
    assert "clock  seconds 3600.0" in capsys.readouterr().out
    assert main(["local", "wave", *where]) == 0
    assert (Layout(up.home).volume_path("ops", "/Volumes/main/landing/files") / "one.json").exists()

    trusted = {"SSL_CERT_FILE": described["ca_file"], "REQUESTS_CA_BUNDLE": described["ca_file"]}
    environment = os.environ | trusted | {"AIRFLOW_CONN_OPS": connection_to(host, token)}
    worker = [sys.executable, "-W", "ignore", "-c", CLIENTS, host, token]
    done = subprocess.run(worker, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    nothing = {"has_more": False}
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "requests": 200,
        "sdk": "local-workspace",
        "official": nothing,
        "official, async": nothing,
        "ours": nothing,
    }
    assert main(["local", "down", *where]) == 0
    assert up.process.wait(timeout=30) == 0
    assert "Error" not in up.log.read_text()
    assert "Traceback" not in up.log.read_text()


def test_a_detached_one_is_started_with_it() -> None:
    given = ["--tls", "--home", "lab", "--workspace", "ops"]
    assert command._again(command._parser().parse_args([*given, "--detach"])) == given


def test_a_restart_keeps_the_authority_whose_key_is_its_owner_s_alone(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with deployment_in_thread(tmp_path / "home", ["ops"], engine=engine(), tls=True) as up:
            assert up.ca_file is not None
            seen.append(up.ca_file.read_bytes())
            assert LocalWorkspace("ops", up.workspaces["ops"]).call("GET", "/local/info")["workspace"] == "ops"
    assert seen[0] == seen[1]
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "home" / "tls").iterdir()}
    assert modes == {"ca-key.pem": 0o600, "ca.pem": 0o644, "server.pem": 0o600}
    assert b"PRIVATE" not in seen[0]


def test_who_does_not_trust_it_is_refused_and_its_log_stays_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with deployment_in_thread(tmp_path / "home", ["ops"], engine=engine(), tls=True) as up:
        stranger = Rest("ops", up.host("ops"), up.token("ops"))
        with pytest.raises(Unavailable, match="certificate verify failed"):
            stranger.call("GET", "/local/info")
        url = httpx.URL(up.host("ops"))
        with socket.create_connection((url.host, url.port)) as plain:
            plain.settimeout(10)
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert plain.recv(100) == b""
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(up.host("ops").replace("https:", "http:"), trust_env=False)
        assert LocalWorkspace("ops", up.workspaces["ops"]).call("GET", "/local/info")["workspace"] == "ops"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_client_that_is_idle_does_not_hold_up_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with deployment_in_thread(tmp_path / "home", ["ops"], engine=engine(), tls=True) as up:
        idle = httpx.Client(verify=ssl.create_default_context(cafile=up.ca_file), trust_env=False)
        assert idle.get(f"{up.host('ops')}/local/health").status_code == 200
    idle.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_answer_that_is_dropped_is_dropped_with_tls_too(tmp_path: Path) -> None:
    with deployment_in_thread(tmp_path / "home", ["ops"], engine=engine(), tls=True) as up:
        rest = LocalWorkspace("ops", up.workspaces["ops"]).rest
        rest.call("POST", "/local/faults", {"kind": "drop_answer", "path": "/jobs/create"})
        with pytest.raises(Unavailable):
            rest.call("POST", "/api/2.2/jobs/create", {"name": "made", "tasks": []})
        assert rest.job_id("made") is not None


def names(server_file: Path) -> set[str]:
    certificate = x509.load_pem_x509_certificate(server_file.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = found.get_values_for_type(x509.IPAddress)
    return {*found.get_values_for_type(x509.DNSName), *map(str, addresses)}


def test_the_servers_are_named_by_every_address_that_they_have(tmp_path: Path) -> None:
    made = certificates(tmp_path, ["127.0.0.9", "127.0.0.1"], time.time())
    assert names(made.server_file) == {"127.0.0.1", "localhost", "127.0.0.9"}
    assert names(certificates(tmp_path, [], time.time()).server_file) == {"127.0.0.1", "localhost"}


def test_an_authority_that_has_expired_is_replaced(tmp_path: Path) -> None:
    first = certificates(tmp_path, [], time.time()).ca_file.read_bytes()
    assert certificates(tmp_path, [], time.time()).ca_file.read_bytes() == first
    ends = x509.load_pem_x509_certificate(first).not_valid_after_utc
    keep = certificates(tmp_path, [], (ends - timedelta(days=800)).timestamp())
    assert keep.ca_file.read_bytes() == first
    later = certificates(tmp_path, [], ends.timestamp()).ca_file.read_bytes()
    assert later != first


def test_a_server_s_certificate_outlives_a_year_of_uptime(tmp_path: Path) -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    server = x509.load_pem_x509_certificate(certificates(tmp_path, [], now.timestamp()).server_file.read_bytes())
    assert server.not_valid_after_utc == now + timedelta(days=365)


def test_without_trustme_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with (
        pytest.raises(NoTls, match=r"TLS takes trustme, which is not installed: pip install .*\[local\]"),
        deployment_in_thread(tmp_path / "home", ["ops"], engine=engine(), tls=True),
    ):
        pass
    with deployment_in_thread(tmp_path / "home", ["ops"], engine=engine()) as up:
        assert up.host("ops").startswith("http://127.0.0.1:")
        assert json.loads(up.layout.deployment_file.read_text())["ca_file"] is None


def test_what_is_kept_and_cannot_be_read_is_named(tmp_path: Path) -> None:
    certificates(tmp_path, [], time.time())
    (tmp_path / "ca-key.pem").write_text("nothing")
    with pytest.raises(NoTls, match=r"ca-key\.pem cannot be read .*; delete it"):
        certificates(tmp_path, [], time.time())


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.1", "localhost", "::1", ""])
def test_an_address_that_is_not_loopback_is_refused(tmp_path: Path, address: str) -> None:
    specs: Sequence[WorkspaceSpec] = [WorkspaceSpec("ops", address=address)]
    with (
        pytest.raises(DeploymentError, match="of the workspace ops is not loopback"),
        deployment_in_thread(tmp_path / "home", specs, engine=engine()),
    ):
        pass
