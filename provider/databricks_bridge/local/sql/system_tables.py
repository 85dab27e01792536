"""`system.lakeflow`: its tables as views of what the store holds, made anew for each statement that names the catalog.

The rows lie in hidden files of JSON lines beside the views and are named by their content, so what has not changed is
not written again and a statement that still reads the rows before finds them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

from databricks_bridge.local.ports import Clock
from databricks_bridge.local.runs.records import everything
from databricks_bridge.local.sql import system_rows as rows
from databricks_bridge.local.sql.model import SqlRequest, SqlRows, SqlRunner
from databricks_bridge.local.sql.system_schema import SCHEMAS, SYSTEM_CATALOG, Schema, ddl, spark_json
from databricks_bridge.local.store import Store

LAKEFLOW = "lakeflow"
_NAMES_IT = re.compile(rf"\b{SYSTEM_CATALOG}\b", re.IGNORECASE)
_KEPT_FILES = 50
"""Files of one table that stay for statements under way."""


class SystemTables:
    """A SqlRunner before another one: statements that name the catalog `system` find it up to date.

    `metastores` maps each hosted workspace to the folder of its metastore: the tables of a metastore show its
    workspaces, as a region's do. `now` is the deployment's clock, in seconds.
    """

    def __init__(
        self, runner: SqlRunner, store: Store, metastores: Mapping[str, Path], user_name: str, now: Clock
    ) -> None:
        self.runner, self._store, self._metastores = runner, store, metastores
        self._user_name, self._now = user_name, now
        self._writing = threading.Lock()

    async def run_sql(self, request: SqlRequest) -> SqlRows:
        if request.catalog == SYSTEM_CATALOG or _NAMES_IT.search(request.statement):
            await asyncio.to_thread(self.publish, request.metastore_root)
        return await self.runner.run_sql(request)

    def publish_all(self) -> None:
        """Bring the tables of every hosted metastore up to date."""
        for metastore_root in dict.fromkeys(self._metastores.values()):
            self.publish(metastore_root)

    def publish(self, metastore_root: Path) -> None:
        """Bring the tables of one metastore up to date."""
        folder = metastore_root / SYSTEM_CATALOG / LAKEFLOW
        data = folder / ".rows"
        with self._writing:
            data.mkdir(parents=True, exist_ok=True)
            for name, table in self._rows(metastore_root).items():
                lines = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in table).encode()
                file = data / f"{name}-{hashlib.sha256(lines).hexdigest()[:24]}.jsonl"
                if not file.exists():
                    _put(file, lines)
                    _forget_old(data, name)
                view, wanted = folder / f"{name}.view.json", _view(SCHEMAS[name], file)
                if not view.exists() or view.read_bytes() != wanted:
                    _put(view, wanted)

    def _rows(self, metastore_root: Path) -> dict[str, list[rows.Row]]:
        """The rows of each table."""
        shown = {name for name, root in self._metastores.items() if root == metastore_root}
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
        return {
            "jobs": rows.job_rows(changes, ids, self._user_name),
            "job_tasks": rows.task_rows(changes, ids),
            "job_run_timeline": rows.run_rows(runs, by_id, ids, at),
            "job_task_run_timeline": rows.task_run_rows(runs, attempts, ids, at),
        }


def _view(schema: Schema, file: Path) -> bytes:
    """A view file as the engine's catalog reads it."""
    path = str(file.absolute()).replace("`", "``")
    query = f"SELECT found.* FROM (SELECT from_json(value, '{ddl(schema)}') AS found FROM text.`{path}`)"
    view = {
        "query": query,
        "catalog": SYSTEM_CATALOG,
        "namespace": [LAKEFLOW],
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
