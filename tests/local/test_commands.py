"""`local up|down|status|logs|wave`, as another process does them to a deployment."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from databricks_bridge.cli import main
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.managing import find, ready_file
from tests.local.local_kit import eventually

ROOT = Path(__file__).resolve().parents[2]
LAB = """\
workspaces:
  ops:
    catalogs:
      main:
        landing: [files]
waves:
  - ops: {/Volumes/main/landing/files/: one.json}
  - ops: {/Volumes/main/landing/files/: [one.json, two.json]}
"""
# `local up`, with notebooks that succeed at once instead of Spark.
WITHOUT_SPARK = """
import sys
from databricks_bridge.local import command
from databricks_bridge.local.engine import InstantEngine, NotebookResult
command._Spark = lambda root: InstantEngine(lambda run: NotebookResult(True, None, None, None))
sys.exit(command.main(sys.argv[1:]))
"""


@dataclass
class Up:
    """A deployment in a process of its own, from a lab file, and what it prints."""

    home: Path
    file: Path
    process: subprocess.Popen[bytes]
    log: Path


def start(folder: Path) -> Up:
    file, log, home = folder / "lab.yaml", folder / "out", folder / ".lab"
    file.write_text(LAB)
    for name in ("one.json", "two.json"):
        (folder / name).write_text("{}")
    with log.open("wb") as output:
        command = [sys.executable, "-c", WITHOUT_SPARK, "--file", str(file)]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    up = Up(home, file, process, log)
    try:
        eventually(lambda: ready_file(home).exists() or process.poll() is not None, seconds=60)
        assert process.poll() is None, log.read_text()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return up


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    started = start(tmp_path)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def landed(up: Up) -> list[str]:
    return sorted(file.name for file in Layout(up.home).volume_path("ops", "/Volumes/main/landing/files").iterdir())


def test_status_says_what_runs_and_where_and_down_ends_it(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "status", "--file", str(up.file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    described = json.loads(Layout(up.home).deployment_file.read_text())
    entry = described["workspaces"]["ops"]
    assert said == {
        "home": str(up.home),
        "state": "up",
        "pid": up.process.pid,
        "tokens": str(Layout(up.home).deployment_file),
        "workspaces": {"ops": {"url": entry["host"], "state": "up", "metastore": "ops"}},
    }
    assert main(["local", "status", "--home", str(up.home)]) == 0
    text = capsys.readouterr().out
    assert entry["host"] in text
    assert entry["token"] not in text + up.log.read_text()
    rights = f"notebooks run as {getpass.getuser()}, with all rights of that user on this machine: there is no sandbox"
    assert rights in up.log.read_text()

    assert main(["local", "down", "--home", str(up.home)]) == 0
    assert up.process.poll() == 0, "it is gone, not on its way"
    assert f"stopped pid {up.process.pid}" in capsys.readouterr().out
    assert main(["local", "status", "--home", str(up.home), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["state"] == "down"
    assert main(["local", "down", "--home", str(up.home)]) == 1
    assert "no deployment runs in" in capsys.readouterr().err


def test_waves_land_one_after_the_other_also_after_a_restart(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    assert landed(up) == []
    assert main(["local", "wave", "--home", str(up.home)]) == 0
    assert capsys.readouterr().out == "wave 1 of 2: 1 files in ops\n"
    assert landed(up) == ["one.json"]
    assert main(["local", "down", "--home", str(up.home)]) == 0
    again = start(up.file.parent)
    try:
        capsys.readouterr()
        assert main(["local", "wave", "--file", str(up.file)]) == 0
        assert capsys.readouterr().out == "wave 2 of 2: 2 files in ops\n"
        assert landed(again) == ["one.json", "two.json"]
        assert main(["local", "wave", "--file", str(up.file)]) == 1
        assert "has 2 waves; there is no wave 3. Drop a file of your own on the pages" in capsys.readouterr().err
        assert main(["local", "wave", "--file", str(up.file), "1"]) == 0
    finally:
        again.process.kill()
        again.process.wait()


def test_one_that_does_not_stop_is_killed_and_one_that_was_killed_is_down(
    up: Up, capsys: pytest.CaptureFixture[str]
) -> None:
    os.kill(up.process.pid, signal.SIGSTOP)
    assert main(["local", "down", "--home", str(up.home), "--timeout", "0.3"]) == 0
    assert f"killed pid {up.process.pid}" in capsys.readouterr().out
    assert up.process.wait(timeout=10) == -signal.SIGKILL
    # The file that says it is ready outlives a kill; the lock does not.
    assert ready_file(up.home).exists()
    assert find(up.home) is None
    assert main(["local", "status", "--home", str(up.home)]) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["up"], "give --home and --workspace, or --file (there is no lab.yaml here)"),
        (["up", "--file", "gone.yaml"], "gone.yaml: cannot be read: No such file or directory"),
        (["up", "--file", "x.yaml", "--workspace", "ops"], "are said by the file, x.yaml; leave them out"),
        (["status"], "which deployment? There is no lab.yaml here; give --file LAB.YAML or --home FOLDER"),
        (["down", "--file", "wrong.yaml"], "wrong.yaml:1: workspace: is not a key here; use home, time_scale"),
    ],
)
def test_a_call_that_cannot_work_is_exit_code_2_and_one_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.yaml").write_text("workspace: {}\n")
    assert main(["local", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_port_given_by_option_wins_over_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lab.yaml").write_text("workspaces: {ops: {port: 0}, gold: {}}\n")
    file = ["--file", str(tmp_path / "lab.yaml")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["local", "up", *file, "--port", f"gold={port}"]) == 2
    assert f"port {port}" in capsys.readouterr().err
    assert main(["local", "up", *file, "--port", f"met={port}"]) == 2
    assert "give NAME=VALUE with one of the workspaces ops, gold" in capsys.readouterr().err


def test_logs_are_a_detached_deployments_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "logs", "--home", str(tmp_path)]) == 1
    assert "only a deployment started with --detach writes it" in capsys.readouterr().err
    (tmp_path / "local.log").write_text("a\nb\nc\n")
    assert main(["local", "logs", "--home", str(tmp_path), "-n", "2", "--follow"]) == 0
    assert capsys.readouterr().out == "b\nc\n"


def test_a_detached_deployment_that_cannot_start_says_why(tmp_path: Path) -> None:
    """Its Java is none: what it says last comes through, and its exit code is that of what the caller has to change."""
    no_java = os.environ | {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "databricks_bridge.local", "--home", str(tmp_path / "home"), "--workspace", "ops"]
    done = subprocess.run([*command, "--detach"], env=no_java, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "JAVA_HOME" in done.stdout + done.stderr
    assert "it ended with exit code 2" in done.stderr


@pytest.mark.spark
def test_up_detached_with_spark_from_the_bundle_of_the_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = {
        "home": str(tmp_path / "lab"),
        "time_scale": 0.05,
        "workspaces": {
            "ops": {
                "catalogs": {
                    "main": {"landing": ["flights", "checkpoints"], "bronze": None, "silver": None, "audit": None}
                },
                "bundle": {
                    "file": str(ROOT / "dags" / "databricks" / "databricks.yml"),
                    "target": "ops",
                    "first": ["create_tables"],
                },
            }
        },
    }
    (tmp_path / "lab.yaml").write_text(json.dumps(lab))
    file = ["--file", str(tmp_path / "lab.yaml")]
    command = [sys.executable, "-m", "databricks_bridge.local", *file, "--detach"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "It runs in the background, pid" in done.stdout
        assert main(["local", "status", *file]) == 0
        assert (tmp_path / "lab" / "metastores" / "ops" / "main" / "silver" / "flights" / "_delta_log").is_dir()
        assert main(["local", "logs", *file]) == 0
        assert "Ready. Tokens are in" in capsys.readouterr().out
    finally:
        assert main(["local", "down", *file]) == 0
