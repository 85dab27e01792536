"""What a person is told when all is up: the same lines for the demo that is kept and for the composition."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from demo import run, waves, where
from demo.places import ROOT, Places
from demo.ui import Progress
from tests.local.local_kit import Notebooks

HOSTS = {"ops": "http://127.0.0.1:18081", "met": "http://127.0.0.1:18082", "analytics": "http://127.0.0.1:18083"}


def external() -> ModuleType:
    spec = importlib.util.spec_from_file_location("external", ROOT / "docker" / "external.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    places = Places(tmp_path)
    places.local.mkdir()
    world: Any = SimpleNamespace(
        airflow_home=SimpleNamespace(url="http://127.0.0.1:8080", password="pass-word"),
        workspaces={name: SimpleNamespace(name=name, host=host) for name, host in HOSTS.items()},
    )
    run._tell_where(Progress(), world, places)
    assert json.loads((places.local / "waves.json").read_text()) == {"landed": max(waves.STORY)}
    return capsys.readouterr().out


def test_the_kept_demo_and_the_composition_say_the_same_but_for_their_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspaces = {name: {"host": host, "token": f"dapi-{name}"} for name, host in HOSTS.items()}
    (tmp_path / "deployment.json").write_text(json.dumps({"workspaces": workspaces}))
    composed = where.lines(where.composed(tmp_path))
    demo = kept(tmp_path, capsys)
    assert "dapi-" not in "\n".join(composed)
    said_by_both = [line for line in composed if "    " not in line[:4] and "docker compose" not in line]
    assert len(said_by_both) == 7
    for line in said_by_both:
        assert line in demo
    assert [line.split()[-1] for line in composed[1:4]] == list(HOSTS.values())


def test_no_wave_of_the_story_is_the_one_that_is_left_for_a_person() -> None:
    assert not set(waves.STORY) & set(waves.LATER)
    for workspace in waves.LANDING:
        assert waves.files(workspace, *waves.LATER)


def test_the_external_profile_says_which_connection_is_not_answered_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = external()
    monkeypatch.delenv("AIRFLOW_CONN_MET", raising=False)
    assert check.problem("met") == "met: AIRFLOW_CONN_MET is not set in .env"
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(Notebooks().run)) as deployment:
        for token, answered in ((deployment.token("ops"), True), ("dapi-wrong", False)):
            connection = {"conn_type": "databricks", "host": deployment.host("ops"), "password": token}
            monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(connection))
            found = check.problem("ops")
            if answered:
                assert found is None
            else:
                assert found.startswith("ops: ")
                assert token not in found
