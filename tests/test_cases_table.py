"""`tests/CASES.md` says which tests, or files of tests, hold a case; here it is held against those that there are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "CASES.md"
FAULTS = (*range(1, 25), *range(30, 39), *range(40, 47), *range(50, 64), *range(70, 90))


def rows() -> list[tuple[str, str, list[str]]]:
    """(number, what it was, tests) for each line of the table."""
    found = []
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 3 and re.fullmatch(r"[A-Z]\d\d", cells[0]):
            found.append((cells[0], cells[1], re.findall(r"`([^`]+)`", cells[2])))
    return found


@cache
def functions(file: Path) -> frozenset[str]:
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_each_fault_of_the_first_release_has_one_line() -> None:
    assert [number for number, _, _ in rows() if number[0] == "T"] == [f"T{number:02d}" for number in FAULTS]


@pytest.mark.parametrize(("number", "what", "tests"), rows(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_case_says_what_it_was_and_names_tests_that_are_there(number: str, what: str, tests: list[str]) -> None:
    assert what
    assert tests
    for test in tests:
        name, _, function = test.partition("::")
        there = functions(ROOT / "tests" / name)
        assert function in there if function else there, f"{number}: {test} is not there"
