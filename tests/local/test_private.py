"""A home is for its user alone, from its first moment on and after an older one was open: T43."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from databricks_bridge.local import private
from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.detaching import detach
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.private import NotPrivate, make_private
from tests.local.local_kit import Notebooks


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(home: Path) -> list[Path]:
    found = [home, *(path for path in home.rglob("*") if not path.is_symlink())]
    return [path for path in found if mode(path) & 0o077]


def old_home(home: Path) -> None:
    """As 0.1.0 left one: 0755 and 0644, with a link that leads out."""
    for file in (
        "volumes/ops/main/s/v/f.json",
        "workspaces/ops/runs/1/output.log",
        "engine/engine.log",
        "store.sqlite",
    ):
        path = home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o644)
    (home / "volumes/ops/main/s/v/out").symlink_to(home.parent / "elsewhere")
    for path in (home, *home.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("before", ["missing", "empty", "old"])
def test_a_deployment_closes_its_home_to_others(tmp_path: Path, before: str) -> None:
    home = tmp_path / "home"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(mode=0o644)
    if before == "empty":
        home.mkdir(mode=0o755)
    if before == "old":
        old_home(home)
        (home / "store.sqlite").unlink()
    with deployment_in_thread(home, ["ops"], engine=InstantEngine(Notebooks().run)):
        assert mode(home) == 0o700
        assert mode(home / "store.sqlite") == 0o600
    if before == "old":
        assert open_to_others(home / "volumes" / "ops" / "main") == []
        assert open_to_others(home / "workspaces" / "ops" / "runs") == []
        assert mode(home / "engine" / "engine.log") == 0o600
    assert mode(elsewhere) == 0o644


def test_what_is_no_deployments_keeps_its_mode_below_a_home(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch(mode=0o644)
    tmp_path.chmod(0o755)
    make_private(tmp_path)
    assert mode(tmp_path) == 0o700
    assert mode(tmp_path / "notes.txt") == 0o644


def test_the_home_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(NotPrivate, match="give a --home of your own"):
        make_private(tmp_path)


def test_the_command_line_makes_nothing_that_others_read(tmp_path: Path) -> None:
    """In a process of its own, whose umask is the usual one; the engine is one that only shows what it inherits."""
    home = tmp_path / "home"
    program = f"""
import asyncio, os, sys
from databricks_bridge.local import command
async def made(plan, engine):
    os.umask(seen := os.umask(0))
    print(oct(seen))
    return 0
command._run = made
sys.exit(command.main(["--home", {str(home)!r}, "--workspace", "ops"]))
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, umask=0o022, timeout=60
    )
    assert said.stdout.splitlines()[-1] == oct(private.UMASK) == "0o77"


def test_a_detached_start_closes_the_home_before_it_writes_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setattr("databricks_bridge.local.detaching.subprocess.Popen", _stops)
    with pytest.raises(_Stopped):
        detach(home, [])
    assert open_to_others(home) == []
    assert os.listdir(home) == ["local.log"]


class _Stopped(Exception):
    pass


def _stops(*_: object, **__: object) -> None:
    raise _Stopped
