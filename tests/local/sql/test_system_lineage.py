"""The rows of `system.access.table_lineage`, from what statements read and wrote as it is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from databricks_bridge.local.layout import Layout
from databricks_bridge.local.runs.model import Attempt, Phase, Run
from databricks_bridge.local.runs.notebooks import LINEAGE
from databricks_bridge.local.runs.records import put_attempt, put_run, remove_run
from databricks_bridge.local.sql.model import Lineage, SqlRequest, SqlRows
from databricks_bridge.local.sql.system_lineage import Names, Statement, lineage_rows
from databricks_bridge.local.sql.system_rows import metastore_id
from databricks_bridge.local.sql.system_schema import SCHEMAS
from databricks_bridge.local.sql.system_tables import SystemTables
from databricks_bridge.local.store import Store

IDS = {"ops": "1001"}
NAMES = Names(Path("/m/ops"), Path("/v/ops"))
AT = int(datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC).timestamp() * 1000)
A, B, C, VIEW, FILES = "/m/ops/main/s/a", "/m/ops/main/s/b", "/m/ops/main/s/c", "main.s.v", "/v/ops/main/s/land/in"
RUN = Run(
    run_id=5,
    workspace="ops",
    job_id=7,
    run_type="JOB_RUN",
    name="silver",
    creator="me",
    trigger="TABLE",
    settings={},
    start_time=AT - 5000,
    phase=Phase.RUNNING,
)
ATTEMPT = Attempt(run_id=51, job_run_id=5, task_key="main", number=0, round=0, phase=Phase.RUNNING)


def rows(*statements: Statement, run: Run = RUN) -> list[dict[str, Any]]:
    return lineage_rows(statements, NAMES, "the-metastore", {5: run}, {51: ATTEMPT}, IDS, "me")


def of_task(reads: list[str], writes: list[str]) -> Statement:
    return Statement(Lineage(AT, reads, writes), "ops", task_run_id=51)


def pairs(shown: list[dict[str, Any]]) -> list[tuple[str | None, str | None]]:
    return [(row.get("source_table_full_name"), row.get("target_table_full_name")) for row in shown]


def test_a_row_is_a_pair_of_a_source_and_a_target_of_one_statement() -> None:
    shown = rows(of_task([B, A], [C]))
    assert pairs(shown) == [("main.s.a", "main.s.c"), ("main.s.b", "main.s.c")]
    assert len({row["event_id"] for row in shown}) == 1
    assert len({row["record_id"] for row in shown}) == 2
    assert pairs(rows(of_task([A], []))) == [("main.s.a", None)]
    assert pairs(rows(of_task([], [C]))) == [(None, "main.s.c")]


def test_every_column_of_a_statement_of_a_job_s_run() -> None:
    (row,) = rows(of_task([A], [C]))
    assert set(row) == set(SCHEMAS["access"]["table_lineage"])
    assert {name: row[name] for name in row if name.startswith(("source", "entity", "event_time", "event_date"))} == {
        "entity_type": "JOB",
        "entity_id": "7",
        "entity_run_id": "5",
        "entity_metadata": {"job_info": {"job_id": "7", "job_run_id": "5"}},
        "source_table_full_name": "main.s.a",
        "source_table_catalog": "main",
        "source_table_schema": "s",
        "source_table_name": "a",
        "source_path": "file:///m/ops/main/s/a",
        "source_type": "TABLE",
        "event_time": "2026-03-01T23:59:59.000+00:00",
        "event_date": "2026-03-01",
    }
    assert (row["workspace_id"], row["metastore_id"], row["created_by"]) == ("1001", "the-metastore", "me")
    assert row["statement_id"] is None
    (submitted,) = rows(of_task([A], [C]), run=replace(RUN, job_id=None))
    assert (submitted["entity_id"], submitted["entity_run_id"]) == ("5", "5")


def test_a_warehouse_s_statement_is_of_no_entity_unless_a_task_ran_it() -> None:
    (alone,) = rows(Statement(Lineage(AT, [A], []), "ops", "statement"))
    assert alone["statement_id"] == "statement"
    assert not [name for name in alone if name.startswith("entity")]
    (in_task,) = rows(Statement(Lineage(AT, [A], []), "ops", "statement", 51))
    assert (in_task["statement_id"], in_task["entity_type"], in_task["entity_run_id"]) == ("statement", "JOB", "5")


def test_views_and_paths_of_volumes_are_sources_and_what_has_no_name_is_none() -> None:
    by_view, by_path = rows(of_task([VIEW], [C])), rows(of_task([FILES], [C]))
    assert [(row["source_table_full_name"], row["source_type"]) for row in by_view] == [("main.s.v", "VIEW")]
    assert [(row["source_path"], row["source_type"]) for row in by_path] == [("/Volumes/main/s/land/in", "PATH")]
    assert "source_table_full_name" not in by_path[0]
    for nameless in ("/tmp/x", "/m/ops/main/s/a/_delta_log", "/m/ops/system/lakeflow/.rows", "system.lakeflow.jobs"):
        assert rows(of_task([nameless], [])) == []
        assert pairs(rows(of_task([nameless], [C]))) == [(None, "main.s.c")]


def test_other_metastores_and_deleted_runs_have_no_rows() -> None:
    assert rows(Statement(Lineage(AT, [A], []), "far", "statement")) == []
    assert rows(Statement(Lineage(AT, [A], []), "ops", task_run_id=52)) == []


class Known:
    """A runner that knows what its statements read."""

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        place = str(request.metastore_root.absolute() / "main" / "s" / request.statement)
        return SqlRows((), [], lineage=Lineage(AT, [place], []))


async def test_what_is_kept_of_notebooks_and_warehouses_is_published(tmp_path: Path) -> None:
    store, layout = Store(tmp_path / "store.sqlite"), Layout(tmp_path)
    with store.transaction() as db:
        db.execute("INSERT INTO workspaces VALUES ('ops', 1001, '', '', '')")
    put_run(store, RUN)
    put_attempt(store, ATTEMPT)
    tables = SystemTables(Known(), store, layout, {"ops": "shared"}, "me", now=lambda: AT / 1000)
    root = layout.metastore_root("shared")

    def shown() -> list[dict[str, Any]]:
        tables.publish("shared")
        query = json.loads((root / "system" / "access" / "table_lineage.view.json").read_text())["query"]
        return [json.loads(line) for line in Path(query.split("`")[-2]).read_text().splitlines()]

    assert shown() == []
    file = layout.run_folder("ops", 51) / LINEAGE
    file.parent.mkdir(parents=True)
    line = json.dumps({"at": AT, "reads": [], "writes": [str(root.absolute() / "main" / "s" / "a")]})
    file.write_text(f'{line}\n{{"at": 1, "rea{line}\n{line}\n{line[:20]}')
    request = SqlRequest("st", "b", root, tmp_path, workspace="ops")
    await tables.run_sql(request)
    await tables.run_sql(replace(request, statement="../../system"))
    assert pairs(shown()) == [(None, "main.s.a"), (None, "main.s.a"), ("main.s.b", None)]
    assert len({row["event_id"] for row in shown()}) == 3
    assert {row["metastore_id"] for row in shown()} == {metastore_id("shared")}
    assert shown()[2]["statement_id"] == "st"
    remove_run(store, 5)
    assert pairs(shown()) == [("main.s.b", None)]
    store.close()
