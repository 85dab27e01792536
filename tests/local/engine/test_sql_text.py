"""What is refused and what is served is found by the tokens of a statement."""

from __future__ import annotations

import pytest

from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.paths import VolumePaths, cloud_scheme
from databricks_bridge.local.engine.sql_refusals import refuse
from databricks_bridge.local.engine.sql_text import Statement
from databricks_bridge.local.refusals import ALL, Area, words
from databricks_bridge.local.sql.model import SqlRequest


@pytest.mark.parametrize("entry", [one for one in ALL if one.area is Area.SQL], ids=lambda entry: entry.name)
def test_what_is_not_served_is_refused_in_the_words_of_the_list(entry: object) -> None:
    if entry.name == "other information schemas":  # refused where its rows are made
        return
    with pytest.raises(NotServedHere) as raised:
        refuse(Statement.of(entry.example))
    assert entry.words in str(raised.value)
    assert "local workspace" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "statement",
    [
        "select 'read_files(' as a",
        "SELECT 1 /* read_files('x') */ -- ai_query('y')",
        "SELECT `read_files` FROM t",
        "SELECT a.secret('x') FROM t",
        "SELECT 'COPY INTO a FROM b'",
        "/* COPY INTO */ SELECT 1",
        "SELECT 's3://bucket/a' AS address",
        "INSERT INTO t VALUES ('s3://bucket/a', 'GRANT')",
        "SELECT \"it's\", r'\\', 'a\\'read_files(b)'",
        "SELECT * FROM json.`/Volumes/a/b/c/d`",
        "SELECT * FROM json.`dbfs:/Volumes/a/b/c/d`",
        "SELECT tags, location FROM t WHERE mask = 1",
        "CREATE TABLE t (location STRING, tags INT)",
        "CREATE TEMPORARY FUNCTION f AS 'a.b'",
        "SELECT system.lakeflow.jobs.name FROM system.lakeflow.jobs",
        "DESCRIBE TABLE system.access.table_lineage",
        "SELECT list FROM t",
        "SELECT 'never closed",
    ],
)
def test_what_only_looks_like_it_is_not_refused(statement: str) -> None:
    refuse(Statement.of(statement))


@pytest.mark.parametrize(
    "path",
    ["s3://b/x", "s3a://b", "abfss://c@a.dfs.core.windows.net/x", "gs://b", "wasbs://c@a/x", "dbfs:/x", "DBFS:/mnt/x"],
)
def test_a_path_in_a_cloud_is_refused_wherever_spark_is_given_one(path: str, tmp_path: object) -> None:
    volumes = VolumePaths(tmp_path)
    for value in (path, [path], (path,)):
        with pytest.raises(NotServedHere) as raised:
            volumes.translated_for_spark(value)
        assert str(raised.value) == f"{path}: {words(Area.SQL, 'cloud paths')}"
    # Python's own functions are asked for all kinds of addresses, which they do not find.
    assert volumes.translated(path) == path
    for statement in (f"SELECT * FROM delta.`{path}`", f"CREATE TABLE t USING csv OPTIONS (path = '{path}')"):
        with pytest.raises(NotServedHere, match="paths of cloud storage"):
            refuse(Statement.of(statement))


@pytest.mark.parametrize(
    "path", ["dbfs:/Volumes/a/b/c", "/Volumes/a", "/tmp/x", "file:/x", "s3", "x/s3://y", "gs", 5, None]
)
def test_other_values_are_in_no_cloud(path: object) -> None:
    assert cloud_scheme(path) is None


def test_words_of_a_statement() -> None:
    statement = Statement.of("/* x */ create or replace table `a b`.c.d as select 1")
    assert statement.after("CREATE", "OR?", "REPLACE?", "TABLE|VIEW") == 4
    assert not statement.starts("CREATE", "TABLE")
    assert [part.text for part in statement.name_at(4)] == ["a b", "c", "d"]
    first = statement.name_at(4)[0]
    assert statement.text[first.begin : first.end] == "`a b`"


def test_a_token_of_the_workspace_is_not_shown(tmp_path: object) -> None:
    assert "dapi-x" not in repr(SqlRequest("1", "SELECT 1", tmp_path, tmp_path, token="dapi-x"))
