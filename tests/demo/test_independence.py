"""The demo judges the product, so it shares no code with it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from demo.places import ROOT

MODULES = sorted((ROOT / "demo").rglob("*.py"))


def imported(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "import_module",
            "__import__",
        ):
            names.add(f"{module.name} imports by name at line {node.lineno}")
    return names


@pytest.mark.parametrize("module", MODULES, ids=[str(module.relative_to(ROOT)) for module in MODULES])
def test_imports_nothing_of_databricks_bridge(module: Path) -> None:
    assert not {name for name in imported(module) if name.startswith("databricks_bridge") or " " in name}


def test_the_check_would_see_it(tmp_path: Path) -> None:
    guilty = tmp_path / "guilty.py"
    guilty.write_text("def f():\n    from databricks_bridge.core import positions\n")
    assert "databricks_bridge" in imported(guilty)
