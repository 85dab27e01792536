"""What import-linter cannot say: core has the standard library alone, and `local` sees two modules of core."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import databricks_bridge

PACKAGE = Path(databricks_bridge.__file__).parent
LOCAL_MAY_IMPORT = ("databricks_bridge.core.errors", "databricks_bridge.core.policy", "databricks_bridge.__version__")
HEAVY = ("aiohttp", "databricks.sdk", "deltalake", "duckdb", "fastapi", "obstore", "pandas", "pyarrow", "pyspark")


def imports_of(file: Path) -> Iterator[tuple[int, str]]:
    """The full dotted name of everything that the file imports, inside functions too."""
    package = ["databricks_bridge", *file.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = [*above, *([node.module] if node.module else [])]
            yield from ((node.lineno, ".".join([*module, alias.name])) for alias in node.names)


def below(name: str, *modules: str) -> bool:
    return any(f"{name}.".startswith(f"{module}.") for module in modules)


def test_core_imports_the_standard_library_and_itself_alone() -> None:
    foreign = [
        f"{file.relative_to(PACKAGE)}:{line} imports {name}"
        for file in sorted((PACKAGE / "core").rglob("*.py"))
        for line, name in imports_of(file)
        if name.split(".")[0] not in sys.stdlib_module_names and not below(name, "databricks_bridge.core")
    ]
    assert foreign == []


def test_local_imports_policy_and_errors_of_core_and_nothing_else_of_ours() -> None:
    foreign = [
        f"{file.relative_to(PACKAGE)}:{line} imports {name}"
        for file in sorted((PACKAGE / "local").rglob("*.py"))
        for line, name in imports_of(file)
        if below(name, "databricks_bridge") and not below(name, "databricks_bridge.local", *LOCAL_MAY_IMPORT)
    ]
    assert foreign == []


def test_a_dag_file_that_imports_every_public_name_pays_for_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys, airflow.sdk; before = set(sys.modules)\n"
        "import databricks_bridge\n"
        "for name in getattr(databricks_bridge, '__all__', ()): getattr(databricks_bridge, name)\n"
        f"heavy = {HEAVY!r}\n"
        "new = set(sys.modules) - before\n"
        "print(*sorted(m for m in new if any((m + '.').startswith(h + '.') for h in heavy)))\n"
    )
    env = os.environ | {"AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
