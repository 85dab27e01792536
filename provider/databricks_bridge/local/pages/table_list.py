"""`/local/tables`: catalogs, schemas, tables with their newest version, views, and the shares of the metastore."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from databricks_bridge.local.pages.asked import Asked, Page
from databricks_bridge.local.pages.delta_history import newest_version
from databricks_bridge.local.pages.document import text
from databricks_bridge.local.pages.job_list import pager
from databricks_bridge.local.pages.parts import address, code, link, soft, table, time
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.triggers.commits import commit_time, table_exists
from databricks_bridge.local.triggers.outcome import to_ms

PER_PAGE = 100
_VIEW = ".view.json"


@dataclass(frozen=True)
class _Row:
    """A table or view of a schema, or with an empty name the schema itself, which has none."""

    schema: Path
    name: str = ""
    is_view: bool = False

    @property
    def place(self) -> str:
        return f"{self.schema.parent.name}.{self.schema.name}"


def show_tables(asked: Asked) -> Page:
    workspace = asked.workspace
    found = list(_rows(workspace))
    last = max((len(found) - 1) // PER_PAGE, 0)
    number = min(asked.number("page") or 0, last)
    rows = [_cells(workspace, row) for row in found[number * PER_PAGE : (number + 1) * PER_PAGE]]
    head = ("Schema", "Table", "Version", "Kind", "Committed")
    body = (
        "<h1>Tables</h1>"
        + (
            table(rows, head, label="Tables", numbers=("Version",))
            if rows
            else soft("No catalogs yet: a notebook, or the catalogs API, makes one.")
        )
        + pager(number, last, "local", "tables")
        + f"<h2>Shares</h2>{_shares(workspace)}"
    )
    return Page("Tables", body, "Tables")


def _rows(workspace: Workspace) -> Iterator[_Row]:
    for catalog in names.children(workspace.layout.metastore_root(workspace.metastore)):
        for schema in names.children(catalog):
            tables = [folder.name for folder in names.children(schema) if table_exists(folder)]
            views = [
                file.name.removesuffix(_VIEW) for file in schema.glob(f"*{_VIEW}") if not file.name.startswith(".")
            ]
            listed = [*(_Row(schema, name) for name in tables), *(_Row(schema, name, True) for name in views)]
            yield from sorted(listed, key=lambda row: row.name) or [_Row(schema)]


def _cells(workspace: Workspace, row: _Row) -> list[str]:
    if not row.name:
        return [text(row.place), '<span class="soft">no tables</span>', "", "", ""]
    share = workspace.shares.find(workspace.metastore, row.schema.parent.name)
    kind = "view" if row.is_view else "table" if share is None else f"shared by {share.source_metastore}"
    version = None if row.is_view else newest_version(row.schema / row.name)
    at = 0
    if version is not None:
        with contextlib.suppress(FileNotFoundError):
            at = to_ms(commit_time(row.schema / row.name, version))
    name = link(address("local", "tables", f"{row.place}.{row.name}"), row.name)
    return [text(row.place), name, "" if version is None else str(version), text(kind), time(at)]


def _shares(workspace: Workspace) -> str:
    rows = [
        [
            code(share.catalog),
            text(f"reads {share.source_catalog} of {share.source_metastore}"),
            text(", ".join(share.schemas)),
            text("held" if share.lag == "held" else "at once"),
            text("with history" if share.history else "without history"),
        ]
        for share in workspace.shares.of(workspace.metastore)
    ]
    rows += [
        [
            code(share.catalog),
            text(f"gives {share.source_catalog} to {share.metastore}"),
            text(", ".join(share.schemas)),
            text("held" if share.lag == "held" else "at once"),
            text("with history" if share.history else "without history"),
        ]
        for given in workspace.shares.given_by(workspace.metastore).values()
        for share in given
    ]
    if not rows:
        return soft("This metastore neither reads nor gives a share.")
    return table(rows, ("Share", "It", "Schemas", "Published", "History"), label="Shares")
