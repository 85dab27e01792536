"""The console command's own part: its groups, and what it says to a command line that cannot work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from databricks_bridge.cli import main


def test_help_goes_to_stdout_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: databricks-bridge")
    assert all(group in out for group in ("status", "subscription", "watermark", "claim", "local"))
    assert "exit codes: 0 done" in out


def test_help_says_what_happens_when_sources_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watermark", "--help"]) == 0
    assert "watermark adopt NAME NEW_ALIAS --of OLD_ALIAS" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["local"],
        ["local", "sideways"],
        ["frobnicate"],
        ["watermark"],
        ["watermark", "rewind", "delays", "flights", "3"],
        ["claim", "resolve", "delays", "--as", "maybe", "--why", "x"],
        ["watermark", "rebuild", "delays", "--why", "x"],
    ],
)
def test_an_unknown_command_is_refused_with_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: databricks-bridge" in capsys.readouterr().err


def test_local_up_hands_on_its_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = str(tmp_path)
    assert main(["local", "up", "--home", home, "--workspace", "ops", "--port", "met=1"]) == 2
    assert "met" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["databricks_bridge.local", "aiohttp", "obstore", "airflow", "argparse"])
def test_importing_the_command_imports_none_of_its_groups(module: str) -> None:
    code = f"import sys, databricks_bridge.cli; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_command_on_a_folder_imports_neither_airflow_nor_a_client(tmp_path: Path) -> None:
    code = (
        "import sys; from databricks_bridge.cli import main\n"
        f"code = main(['status', '--ledger', {tmp_path.as_uri()!r}])\n"
        "sys.exit(code or 10 * any(name in sys.modules for name in ('airflow', 'aiohttp', 'databricks_bridge.local')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
