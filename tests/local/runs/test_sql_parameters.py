"""`{{name}}` in the file of a SQL task."""

from __future__ import annotations

import pytest

from databricks_bridge.local.runs.sql_parameters import NoSuchParameter, substituted

GIVEN = {"catalog": "main", "n": "5", "name": "it's", "table": "main.s.t"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("USE CATALOG {{catalog}}; USE IDENTIFIER({{ catalog }})", "USE CATALOG 'main'; USE IDENTIFIER('main')"),
        ("SELECT * FROM {{table}} WHERE a = {{name}} LIMIT {{n}}", "SELECT * FROM main.s.t WHERE a = 'it\\'s' LIMIT 5"),
        ("SELECT '{{name}} and \"{{n}}\"'", "SELECT 'it\\'s and \"5\"'"),
        ("SELECT * FROM {{catalog}}.s.t_{{n}}", "SELECT * FROM main.s.t_5"),
        (
            "SELECT `{{catalog}}`.x -- {{unknown}}\n/* {{unknown}} */",
            "SELECT `main`.x -- {{unknown}}\n/* {{unknown}} */",
        ),
        ("INSERT INTO t VALUES ({{job.id}}, '{{job.id}}')", "INSERT INTO t VALUES (77, '77')"),
        ("SELECT '{{n}}; x'", "SELECT '5; x'"),
        ("SELECT struct(1)", "SELECT struct(1)"),
    ],
)
def test_a_value_stands_where_it_is_asked_for(text: str, found: str) -> None:
    assert substituted(text, GIVEN, {"job.id": "77"}) == found


def test_a_value_is_not_read_again() -> None:
    assert substituted("SELECT {{a}}", {"a": "{{b}}", "b": "1"}, {}) == "SELECT '{{b}}'"


def test_a_parameter_that_nothing_gives_is_an_error() -> None:
    with pytest.raises(NoSuchParameter, match=r"asks for \{\{other\}\}, which is no parameter"):
        substituted("SELECT '{{other}}'", GIVEN, {})
