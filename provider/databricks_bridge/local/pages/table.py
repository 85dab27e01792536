"""The page of a table: columns, its newest versions, and a form that commits a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.pages.asked import Asked, Goto, Page
from databricks_bridge.local.pages.delta_history import Entry, history, newest_version
from databricks_bridge.local.pages.document import text
from databricks_bridge.local.pages.parts import (
    address,
    code,
    facts,
    hidden,
    link,
    said,
    soft,
    table,
    time,
    without_empty,
)
from databricks_bridge.local.pages.row import RowRefused, append, row_of_fields, row_of_json
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.errors import InvalidState, PermissionDenied
from databricks_bridge.local.server.requests import Arguments
from databricks_bridge.local.server.unity_catalog_tables import described, existing_table, get_table
from databricks_bridge.local.triggers.commits import table_exists

MOST_FIELDS = 60
"""Columns beyond which a row is given as JSON alone."""
Body = Mapping[str, Any]


def show_table(asked: Asked) -> Page:
    """`/local/tables/{catalog.schema.table}?before=`."""
    return _page(asked, _name(asked))


async def commit_row(asked: Asked) -> Page | Goto:
    """`POST /local/tables/{catalog.schema.table}/rows`: a field for each column, or a JSON object."""
    name = _name(asked)
    try:
        version = await run_in_threadpool(_commit, asked, name)
    except RowRefused as error:
        return await run_in_threadpool(_page, asked, name, str(error))
    return Goto(address("local", "tables", name, committed=version))


def _commit(asked: Asked, name: str) -> int:
    table = existing_table(asked.workspace, name)
    names.refuse_read_only(asked.workspace, table.parent.parent.name)
    fields = _fields(described(asked.workspace, table))
    if not fields:
        raise RowRefused("The columns of the table are not known, since its log cannot be read.")
    source = asked.form.get("json", "").strip()
    return append(table, row_of_json(fields, source) if source else row_of_fields(fields, asked.form))


def _name(asked: Asked) -> str:
    return ".".join(names.parts_of(asked.path["name"], 3))


def _fields(body: Body) -> list[dict[str, Any]]:
    return [json.loads(column["type_json"]) for column in body["columns"]]


def _page(asked: Asked, name: str, problem: str = "") -> Page:
    folder = existing_table(asked.workspace, name)
    is_table = table_exists(folder)
    body = described(asked.workspace, folder) if is_table else _view(asked, name)
    parts = [f"<h1>{text(name)}</h1>"]
    version = newest_version(folder) if is_table else None
    committed = asked.number("committed")
    if committed is not None and version is not None and committed <= version:
        parts.append(said(f"The row is committed, in version {committed}.", "good"))
    shared = asked.workspace.shares.find(asked.workspace.metastore, folder.parent.parent.name)
    kind = "view" if not is_table else "table" if shared is None else f"shared by {shared.source_metastore}"
    known = [
        ("Kind", text(kind)),
        ("Newest version", "" if version is None else str(version)),
        ("Table id", code(body["table_id"])),
        ("Comment", text(body.get("comment", ""))),
        ("Created", time(body["created_at"])),
        ("Definition", code(body["view_definition"]) if "view_definition" in body else ""),
        ("Properties", "<br>".join(code(f"{key} = {value}") for key, value in sorted(body["properties"].items()))),
    ]
    parts.append(facts(known, label="The table"))
    parts.append(f"<h2>Columns</h2>{_columns(body, is_table)}")
    if is_table:
        parts.append(f"<h2>History</h2>{_history(asked, name, folder)}")
    read_only = _read_only(asked, folder)
    if is_table and not read_only and body["columns"]:
        parts.append(f'<h2 id="commit">Commit a row</h2>{_form(asked, name, body, problem)}')
    elif problem or read_only:
        parts.append(said(problem, "bad") if problem else soft(read_only))
    return Page(name, "".join(parts), "Tables", status=422 if problem else 200)


def _read_only(asked: Asked, folder: Path) -> str:
    """Why nothing can be committed to the tables of this catalog; empty where it can."""
    try:
        names.refuse_read_only(asked.workspace, folder.parent.parent.name)
    except PermissionDenied as error:
        return error.message
    return ""


def _view(asked: Asked, name: str) -> Body:
    try:
        return get_table(asked.workspace, Arguments({}), name)
    except (ValueError, LookupError, TypeError) as error:
        raise InvalidState(f"The definition of the view {name} cannot be read ({type(error).__name__}).") from None


def _columns(body: Body, is_table: bool) -> str:
    rows = [
        [
            code(column["name"]),
            text(column["type_text"]),
            "" if column["nullable"] else "not null",
            text(column.get("partition_index", "")),
            text(column.get("comment", "")),
        ]
        for column in body["columns"]
    ]
    if not rows:
        return said("They are not known: its Delta log cannot be read.", "bad") if is_table else soft("None.")
    return table(*without_empty(rows, ("Column", "Type", "Null", "Partition", "Comment")), label="Columns")


def _history(asked: Asked, name: str, folder: Path) -> str:
    entries, more = history(folder, before=asked.number("before"))
    if not entries:
        return soft("There is no commit here: it is older than what the log keeps.")
    head = ("Version", "Committed", "Operation", "Rows", "By")
    older = address("local", "tables", name, before=entries[-1].version)
    return table(map(_cells, entries), head, label="History") + (
        f"<p>{link(older, 'Older versions')}</p>" if more else ""
    )


def _cells(entry: Entry) -> list[str]:
    operation = f'<span class="soft">{text(entry.problem)}</span>' if entry.problem else text(entry.operation)
    mode = f' <span class="soft">{text(entry.mode)}</span>' if entry.mode else ""
    return [str(entry.version), time(entry.at), operation + mode, text(entry.rows), text(entry.engine)]


def _form(asked: Asked, name: str, body: Body, problem: str) -> str:
    columns = list(body["columns"])
    fields = "".join(_field(position, column, asked) for position, column in enumerate(columns[:MOST_FIELDS]))
    if len(columns) > MOST_FIELDS:
        fields = ""
    example = json.dumps({column["name"]: None for column in columns[:3]})
    source = asked.form.get("json", "")
    note = "An empty field is null. Structs, arrays and maps are written as JSON." if fields else ""
    return (
        (said(problem, "bad") if problem else "")
        + f'<form method="post" action="{text(address("local", "tables", name, "rows"))}#commit">'
        + f'{hidden(asked.form_value)}<div class="fields">{fields}<div class="whole"><label for="json">'
        f'{"Or the whole row" if fields else "The row"} <span class="soft">a JSON object, such as {text(example)}</span>'
        f'</label><textarea id="json" name="json" spellcheck="false">{text(source)}</textarea></div></div>'
        + (soft(note) if note else "")
        + '<div class="row"><button>Commit row</button></div></form>'
    )


def _field(position: int, column: Body, asked: Asked) -> str:
    value = text(asked.form.get(str(position), ""))
    need = "" if column["nullable"] else ", not null"
    return (
        f'<div><label for="c{position}">{text(column["name"])} <span class="soft">{text(column["type_text"])}{need}</span>'
        f'</label><input id="c{position}" name="{position}" value="{value}" autocomplete="off"></div>'
    )
