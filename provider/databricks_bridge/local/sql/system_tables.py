"""The catalog `system`: its tables as views of what is known here, made anew for each statement that names the catalog.

Jobs and their runs are in the store; what statements read and wrote is kept as they end, a line each. The rows lie in hidden files of JSON lines beside the views and are named by their content, so what has not changed is
not written again and a statement that still reads the rows before finds them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from databricks_bridge.local.layout import Layout
from databricks_bridge.local.ports import Clock
from databricks_bridge.local.runs.model import Attempt
from databricks_bridge.local.runs.notebooks import LINEAGE
from databricks_bridge.local.runs.records import everything
from databricks_bridge.local.sql import system_rows as rows
from databricks_bridge.local.sql.model import Lineage, SqlRequest, SqlRows, SqlRunner
from databricks_bridge.local.sql.system_lineage import Names, Statement, lineage_rows, read_lines
from databricks_bridge.local.sql.system_schema import SCHEMAS, SYSTEM_CATALOG, Schema, ddl, spark_json
from databricks_bridge.local.store import Store

STATEMENTS = ".statements.jsonl"
"""Name of the file of what the statements of warehouses read and wrote, in the folder of the schema `access`."""
_NAMES_IT = re.compile(rf"\b{SYSTEM_CATALOG}\b", re.IGNORECASE)
log = logging.getLogger(__name__)
_KEPT_FILES = 50
"""Files of one table that stay for statements under way."""


class SystemTables:
    """A SqlRunner before another one: statements that name the catalog `system` find it up to date.

    `metastores` maps each hosted workspace to the name of its metastore: the tables of a metastore show its
    workspaces, as a region's do. `now` is the deployment's clock, in seconds.
    """

    def __init__(
        self,
        runner: SqlRunner,
        store: Store,
        layout: Layout,
        metastores: Mapping[str, str],
        user_name: str,
        now: Clock,
    ) -> None:
        self.runner, self._store, self._layout, self._metastores = runner, store, layout, metastores
        self._user_name, self._now = user_name, now
        self._writing = threading.Lock()

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        if request.catalog == SYSTEM_CATALOG or _NAMES_IT.search(request.statement):
            await asyncio.to_thread(self.publish, request.metastore_root.name)
        found = await self.runner.run_sql(request)
        if found.lineage is not None:
            self._keep(request, found.lineage)
        return found

    def publish_all(self) -> None:
        """Bring the tables of every hosted metastore up to date."""
        for metastore in dict.fromkeys(self._metastores.values()):
            self.publish(metastore)

    def publish(self, metastore: str) -> None:
        """Bring the tables of one metastore up to date."""
        with self._writing:
            for schema, tables in self._rows(metastore).items():
                folder = self._folder(metastore, schema)
                for name, table in tables.items():
                    _publish(folder, name, SCHEMAS[schema][name], table)

    def _folder(self, metastore: str, schema: str) -> Path:
        return self._layout.metastore_root(metastore) / SYSTEM_CATALOG / schema

    def _keep(self, request: SqlRequest, lineage: Lineage) -> None:
        """Keep what a statement read and wrote, unless that was nothing with a name."""
        metastore = request.metastore_root.name
        if not self._names(metastore).known(lineage):
            return
        line = {
            **asdict(lineage),
            "statement_id": request.statement_id,
            "workspace": request.workspace,
            "task_run_id": request.task_run_id,
        }
        folder = self._folder(metastore, "access")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / STATEMENTS).open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(line)}\n")
        except OSError as error:  # the statement has succeeded
            log.warning("what statement %s read and wrote is not kept: %s", request.statement_id, error)

    def _names(self, metastore: str) -> Names:
        layout = self._layout
        return Names(layout.metastore_root(metastore).absolute(), layout.volumes_root(metastore).absolute())

    def _statements(
        self, metastore: str, workspaces: Mapping[int, str], attempts: Iterable[Attempt]
    ) -> Iterator[Statement]:
        """Those of notebooks, then those of warehouses. `workspaces` is by the id of the job run."""
        for attempt in attempts:
            if workspace := workspaces.get(attempt.job_run_id):
                file = self._layout.run_folder(workspace, attempt.run_id) / LINEAGE
                for number, line in enumerate(_lines(file)):
                    yield Statement(Lineage(**line), workspace, task_run_id=attempt.run_id, number=number)
        for line in _lines(self._folder(metastore, "access") / STATEMENTS):
            lineage = Lineage(line["at"], line["reads"], line["writes"])
            yield Statement(lineage, line["workspace"], line["statement_id"], line["task_run_id"])

    def _rows(self, metastore: str) -> dict[str, dict[str, Sequence[rows.Row]]]:
        """The rows of each table of each schema."""
        shown = {name for name, its in self._metastores.items() if its == metastore}
        ids = {
            str(row["name"]): str(row["workspace_id"])
            for row in self._store.query("SELECT name, workspace_id FROM workspaces")
            if row["name"] in shown
        }
        with self._store.transaction():  # all of it as of one moment
            changes = self._store.job_changes()
            runs, attempts = everything(self._store)
        runs = [run for run in runs if run.workspace in ids]
        by_id = {attempt.run_id: attempt for attempt in attempts}
        at = int(self._now() * 1000)
        statements = self._statements(metastore, {run.run_id: run.workspace for run in runs}, attempts)
        lineage = lineage_rows(
            statements,
            self._names(metastore),
            rows.metastore_id(metastore),
            {run.run_id: run for run in runs},
            by_id,
            ids,
            self._user_name,
        )
        return {
            "access": {"table_lineage": lineage},
            "lakeflow": {
                "jobs": rows.job_rows(changes, ids, self._user_name),
                "job_tasks": rows.task_rows(changes, ids),
                "job_run_timeline": rows.run_rows(runs, by_id, ids, at),
                "job_task_run_timeline": rows.task_run_rows(runs, attempts, ids, at),
            },
        }


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if file.is_file():
        with file.open(encoding="utf-8") as lines:
            yield from read_lines(lines)


def _publish(folder: Path, name: str, schema: Schema, table: Sequence[rows.Row]) -> None:
    data = folder / ".rows"
    data.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in table).encode()
    file = data / f"{name}-{hashlib.sha256(lines).hexdigest()[:24]}.jsonl"
    if not file.exists():
        _put(file, lines)
        _forget_old(data, name)
    view, wanted = folder / f"{name}.view.json", _view(folder.name, schema, file)
    if not view.exists() or view.read_bytes() != wanted:
        _put(view, wanted)


def _view(namespace: str, schema: Schema, file: Path) -> bytes:
    """A view file as the engine's catalog reads it."""
    path = str(file.absolute()).replace("`", "``")
    query = f"SELECT found.* FROM (SELECT from_json(value, '{ddl(schema)}') AS found FROM text.`{path}`)"
    view = {
        "query": query,
        "catalog": SYSTEM_CATALOG,
        "namespace": [namespace],
        "columns": list(schema),
        "schema": spark_json(schema),
        "schema_mode": "BINDING",
        "configs": {},
        "properties": {},
    }
    return json.dumps(view, indent=2).encode()


def _put(file: Path, content: bytes) -> None:
    draft = file.with_name(f".{uuid.uuid4()}.tmp")
    draft.write_bytes(content)
    os.replace(draft, file)


def _forget_old(data: Path, name: str) -> None:
    files = sorted(data.glob(f"{name}-*.jsonl"), key=lambda file: file.stat().st_mtime)
    for file in files[:-_KEPT_FILES]:
        file.unlink()
