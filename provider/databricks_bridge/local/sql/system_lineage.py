"""The rows of `system.access.table_lineage`, from what the statements of notebooks and warehouses read and wrote. Pure.

A statement is kept as one line of JSON when it has succeeded: a notebook's in the folder of its task run, by the engine;
a warehouse's with who ran it, beside the table that shows it. A row is a pair of one source and one target of a statement.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.local.runs.model import Attempt, Run
from databricks_bridge.local.sql.model import Lineage
from databricks_bridge.local.sql.system_rows import ACCOUNT_ID, Row, job_id_of, time_text
from databricks_bridge.local.sql.system_schema import SYSTEM_CATALOG

_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "databricks-bridge/local/lineage")


@dataclass(frozen=True)
class Statement:
    """A statement that has succeeded. `statement_id` is a warehouse's, `task_run_id` the task run's that ran it.

    `number` tells a notebook's statements apart.
    """

    lineage: Lineage
    workspace: str
    statement_id: str | None = None
    task_run_id: int | None = None
    number: int = 0


@dataclass(frozen=True)
class Names:
    """What a metastore calls the folders of its tables and volumes; both roots are absolute."""

    metastore_root: Path
    volumes_root: Path

    def known(self, lineage: Lineage) -> bool:
        """Whether anything that it read or wrote has a name."""
        return any(self.row("source", place) for place in (*lineage.reads, *lineage.writes))

    def row(self, side: str, place: str) -> Row:
        """The columns of this side, `source` or `target`; none for what is no table, view or volume, or the system's own."""
        if not place.startswith("/"):
            return _table(side, place.split("."), "VIEW", None)
        path = Path(place)
        if path.is_relative_to(self.metastore_root):
            return _table(side, path.relative_to(self.metastore_root).parts, "TABLE", path.as_uri())
        if path.is_relative_to(self.volumes_root):
            inside = path.relative_to(self.volumes_root).as_posix()
            return {f"{side}_path": f"/Volumes/{inside}", f"{side}_type": "PATH"}
        return {}


def lineage_rows(
    statements: Iterable[Statement],
    names: Names,
    metastore_id: str,
    runs: Mapping[int, Run],
    attempts: Mapping[int, Attempt],
    ids: Mapping[str, str],
    user_name: str,
) -> list[Row]:
    """`table_lineage`: a row for each source and target of each statement, alone where it has only the one.

    `runs` and `attempts` are by their ids; statements of those that are deleted have no rows. `ids` holds the workspace
    id of each workspace that is shown.
    """
    rows: list[Row] = []
    for statement in statements:
        attempt = None if statement.task_run_id is None else attempts.get(statement.task_run_id)
        run = None if attempt is None else runs.get(attempt.job_run_id)
        if statement.workspace not in ids or (run is None and statement.task_run_id is not None):
            continue
        known = {
            "account_id": ACCOUNT_ID,
            "metastore_id": metastore_id,
            "workspace_id": ids[statement.workspace],
            **_entity(run),
            "created_by": user_name,
            "event_time": time_text(statement.lineage.at),
            "event_date": time_text(statement.lineage.at)[:10],
            "statement_id": statement.statement_id,
        }
        rows += [{**known, **pair} for pair in _pairs(statement, names)]
    return rows


def read_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What was kept, a line each; one that a process left unfinished when it was killed is passed over."""
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)


def _entity(run: Run | None) -> Row:
    """A statement that no run ran is of no entity: its `statement_id` says what it is."""
    if run is None:
        return {}
    job_id, run_id = job_id_of(run), str(run.run_id)
    job_info = {"job_id": job_id, "job_run_id": run_id}
    return {
        "entity_type": "JOB",
        "entity_id": job_id,
        "entity_run_id": run_id,
        "entity_metadata": {"job_info": job_info},
    }


def _pairs(statement: Statement, names: Names) -> Iterator[Row]:
    event = uuid.uuid5(_IDS, f"{statement.task_run_id} {statement.statement_id} {statement.number}")
    sources = [row for place in sorted(statement.lineage.reads) if (row := names.row("source", place))]
    targets = [row for place in sorted(statement.lineage.writes) if (row := names.row("target", place))]
    if sources or targets:
        for number, (source, target) in enumerate(itertools.product(sources or [{}], targets or [{}])):
            yield {"record_id": str(uuid.uuid5(event, str(number))), "event_id": str(event), **source, **target}


def _table(side: str, parts: Sequence[str], kind: str, path: str | None) -> Row:
    if len(parts) != 3 or parts[0] == SYSTEM_CATALOG:
        return {}
    catalog, schema, name = parts
    return {
        f"{side}_table_full_name": ".".join(parts),
        f"{side}_table_catalog": catalog,
        f"{side}_table_schema": schema,
        f"{side}_table_name": name,
        f"{side}_path": path,
        f"{side}_type": kind,
    }
