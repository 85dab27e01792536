"""The demo judges the product, so it shares no code with it: it only starts it, as a process."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from demo.places import ROOT

MODULES = sorted((ROOT / "demo").rglob("*.py"))
PRODUCT = "databricks_bridge"
# The one place that may name it: the command line that starts the local deployment.
STARTED = {"story.py": ["databricks_bridge.local"]}


def imported(module: Path) -> set[str]:
    """The first part of the name of each module that the file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


def named(module: Path) -> list[str]:
    """Each string in the file that is a name of the product: it could be imported by name."""
    strings = (node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant))
    return [text for text in strings if isinstance(text, str) and text.split(".")[0] == PRODUCT]


@pytest.mark.parametrize("module", MODULES, ids=[str(module.relative_to(ROOT)) for module in MODULES])
def test_imports_nothing_of_the_product(module: Path) -> None:
    assert PRODUCT not in imported(module)
    assert named(module) == STARTED.get(module.name, [])


def test_the_check_would_see_it(tmp_path: Path) -> None:
    guilty = tmp_path / "guilty.py"
    guilty.write_text("def f():\n    from databricks_bridge.core import positions\n")
    assert PRODUCT in imported(guilty)
    guilty.write_text("import importlib\nimportlib.import_module('databricks_bridge.core')\n")
    assert named(guilty) == ["databricks_bridge.core"]
