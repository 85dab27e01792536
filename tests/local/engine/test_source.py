from __future__ import annotations

import pytest

from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.source import Cell, CellKind, parse_notebook, sql_parameters, sql_statements

NOTEBOOK = """# Databricks notebook source
# MAGIC %md
# MAGIC # Bronze
# MAGIC
# MAGIC text

# COMMAND ----------

# DBTITLE 1,Load
x = 1
y = "# MAGIC %sh ls"

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT 1;
# MAGIC
# MAGIC SELECT 2

# COMMAND ----------


# COMMAND ----------

# MAGIC %python print(x)
"""


def test_cells_keep_their_kind_and_line() -> None:
    assert parse_notebook(NOTEBOOK) == (
        Cell(CellKind.MARKDOWN, "\n# Bronze\n\ntext\n", 2),
        Cell(CellKind.PYTHON, 'x = 1\ny = "# MAGIC %sh ls"\n', 10),
        Cell(CellKind.SQL, "\nSELECT 1;\n\nSELECT 2\n", 15),
        Cell(CellKind.PYTHON, "print(x)", 25),
    )


def test_a_plain_file_is_one_cell() -> None:
    assert parse_notebook("x = 1\n# MAGIC %sql\n") == (Cell(CellKind.PYTHON, "x = 1\n# MAGIC %sql\n", 1),)


def test_a_notebook_with_nothing_in_it() -> None:
    assert parse_notebook("# Databricks notebook source\n") == ()


@pytest.mark.parametrize("magic", ["%pip install x", "%run ./other", "%sh ls", "%scala", "%fs ls /"])
def test_other_magics_are_refused_by_name(magic: str) -> None:
    with pytest.raises(NotServedHere, match=rf"line 4: .* does not serve {magic.split()[0]}\."):
        parse_notebook(f"# Databricks notebook source\nx = 1\n# COMMAND ----------\n# MAGIC {magic}\n")


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1; SELECT 2;", ("SELECT 1", "SELECT 2")),
        ("SELECT ';', \";\", `;` -- ; \n/* ; */ ; ", ("SELECT ';', \";\", `;` -- ; \n/* ; */",)),
        ("SELECT 'it\\'s; one'", ("SELECT 'it\\'s; one'",)),
        ("-- only a comment\n;\n", ()),
    ],
)
def test_statements_are_split_outside_quotes_and_comments(text: str, statements: tuple[str, ...]) -> None:
    assert sql_statements(text) == statements


def test_parameters_of_a_statement() -> None:
    statement = "SELECT :a, x::int, ':b' FROM t /* :c */ WHERE day = :day_1 -- :d"
    assert sql_parameters(statement) == {"a", "day_1"}
