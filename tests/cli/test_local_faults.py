"""`databricks-bridge local fault`, against a local deployment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from databricks_bridge.cli import main
from databricks_bridge.cli.local_faults import KINDS, seconds
from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.faults import KINDS as SERVED
from tests.local.local_kit import Notebooks


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Deployment]:
    with deployment_in_thread(tmp_path / "home", ["ops", "met"], engine=InstantEngine(Notebooks().run)) as deployment:
        yield deployment


def status(up: Deployment) -> int:
    headers = {"Authorization": f"Bearer {up.token('ops')}"}
    return httpx.get(f"{up.host('ops')}/api/2.2/jobs/list", headers=headers).status_code


def test_a_fault_is_added_listed_and_ended(up: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--home", str(up.layout.home), "--workspace", "ops"]
    assert main(["local", "fault", "add", "rate_limit", "--seconds", "5m", "--path", "/jobs/", *where, "--json"]) == 0
    fault = json.loads(capsys.readouterr().out)
    assert {"kind": "rate_limit", "seconds": 300.0, "path": "/jobs/"}.items() <= fault.items()
    assert status(up) == 429
    assert main(["local", "fault", "list", *where]) == 0
    assert capsys.readouterr().out == f"{fault['fault_id']}  rate_limit  seconds 300.0, path /jobs/\n"
    assert main(["local", "fault", "end", str(fault["fault_id"]), *where]) == 0
    assert status(up) == 200
    assert main(["local", "fault", "end", str(fault["fault_id"]), *where]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert main(["local", "fault", "end", *where]) == 0
    assert main(["local", "fault", "list", *where]) == 0
    assert "no fault goes on" in capsys.readouterr().out


def test_what_cannot_work_is_said(up: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "fault", "list", "--home", str(up.layout.home)]) == 2
    assert "--workspace is missing: give one of met, ops" in capsys.readouterr().err
    assert main(["local", "fault", "list", "--home", str(tmp_path / "none")]) == 2
    assert "is a local deployment up with this --home?" in capsys.readouterr().err
    assert main(["local", "fault", "add", "clock", "--home", str(up.layout.home), "--workspace", "ops"]) == 1
    assert "clock needs seconds" in capsys.readouterr().err
    assert main(["local", "fault", "add", "storm", "--home", str(up.layout.home), "--workspace", "ops"]) == 2


def test_its_kinds_are_those_that_are_served() -> None:
    assert KINDS == SERVED


def test_times() -> None:
    assert [seconds(text) for text in ("30", "30s", "5m", "1h", "0.5d")] == [30, 30, 300, 3600, 43200]
    with pytest.raises(InvalidArgument, match="is no time"):
        seconds("soon")
