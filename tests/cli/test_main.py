"""The console command's own part: its groups, and what it says to a command line that cannot work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from databricks_bridge.cli import main


def test_help_goes_to_stdout_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: databricks-bridge local up")


@pytest.mark.parametrize("words", [[], ["local"], ["local", "down"], ["frobnicate"]])
def test_an_unknown_command_is_refused_with_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: databricks-bridge local up" in capsys.readouterr().err


def test_local_up_hands_on_its_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = str(tmp_path)
    assert main(["local", "up", "--home", home, "--workspace", "ops", "--port", "met=1"]) == 2
    assert "met" in capsys.readouterr().err


def test_importing_the_command_does_not_import_the_local_workspace() -> None:
    code = "import sys, databricks_bridge.cli; sys.exit('databricks_bridge.local' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
