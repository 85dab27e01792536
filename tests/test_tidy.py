"""Style rules as tests: small modules, and nothing in a tracked file that holds on one machine only."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST_MODULE = 400
# Written apart, so that this file passes its own rules.
MACHINE_PATH = re.compile(r"(?<![\w.$}/])/(?:wor" + r"k|roo" + r"t|hom" + r"e/\w+)(?![\w-])")
REGISTRY_HOST = re.compile(
    r"pypi\.or"
    + r"g|pythonhosted\.or"
    + r"g|registry\.npmjs|crates\.i"
    + r"o\b|proxy\.golang|repo1?\.maven|maven\.or"
    + r"g"
    r"|deb\.debian\.or" + r"g|archive\.ubuntu\.co" + r"m"
)


def tracked() -> list[Path]:
    """The files that git tracks or would track; where there is no git, all but hidden folders."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode != 0:
        return [file for file in ROOT.rglob("*") if file.is_file() and not _hidden(file)]
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def _hidden(file: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(ROOT).parts)


def lines() -> Iterator[tuple[str, str]]:
    """("file:line", text) for each line of each tracked text file."""
    for file in tracked():
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            yield f"{file.relative_to(ROOT)}:{number}", line


@pytest.mark.parametrize("folder", ["provider", "dags", "demo", "benchmarks", "faults", "scripts", "tests"])
def test_no_module_is_longer_than_a_few_screens(folder: str) -> None:
    long = {
        str(file.relative_to(ROOT)): length
        for file in sorted((ROOT / folder).rglob("*.py"))
        if (length := len(file.read_text().splitlines())) > LONGEST_MODULE
    }
    assert long == {}


def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    assert [place for place, line in lines() if MACHINE_PATH.search(line)] == []


def test_no_tracked_file_names_a_package_registry() -> None:
    assert [place for place, line in lines() if REGISTRY_HOST.search(line)] == []


def test_no_line_ends_with_a_space() -> None:
    untidy = [
        place
        for place, line in lines()
        if line != line.rstrip() and not place.split(":")[0].endswith((".md", ".patch"))
    ]
    assert untidy == []


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("/wor" + "k/main", True),
        ("open('/roo" + "t/.bashrc')", True),
        ("/hom" + "e/ada/bridge", True),
        ("/Users/ada is where Databricks keeps a user's notebooks", False),
        ("databricks_bridge/work", False),
        ("self.root / 'x'", False),
        ("https://docs.databricks.com/home", False),
        ("$CURDIR/work", False),
    ],
)
def test_the_rule_for_paths_catches_what_it_should(line: str, caught: bool) -> None:
    assert bool(MACHINE_PATH.search(line)) is caught
