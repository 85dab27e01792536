"""sql_task: the statements of a file of the workspace, one after the other, on the runner of the SQL warehouses."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from databricks_bridge.local.engine.source import sql_parameters, sql_statements
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.means import Ended, Means
from databricks_bridge.local.runs.model import Attempt, Outcome
from databricks_bridge.local.runs.notebooks import find_notebook
from databricks_bridge.local.runs.plan import FAILED_MESSAGE
from databricks_bridge.local.runs.sql_parameters import NoSuchParameter, substituted
from databricks_bridge.local.sql.model import SqlFailed, SqlParameter, SqlRequest, SqlRows

ROWS_LIMIT = 1000
"""Rows of the last statement that later tasks may refer to."""


async def run_sql_file(
    means: Means, workspace: Workspace, settings: Mapping[str, Any], attempt: Attempt, references: Mapping[str, str]
) -> Ended:
    """Run the statements until one fails. `references` are the values of dynamic value references. The rows of the last one are what `tasks.<key>.output` refers to."""
    path = str(settings["file"]["path"])
    file = find_notebook(workspace.layout.workspace_files(workspace.name), path)
    if file is None:
        message = f"Unable to access the file {path!r} in the workspace."
        return Ended(Outcome.NO_NOTEBOOK, message, {"error": message})
    await means.before_run(workspace.name)
    given: Mapping[str, str] = attempt.resolved["sql_task"]["parameters"]
    try:
        text = substituted(file.read_text(encoding="utf-8-sig"), given, references)
    except NoSuchParameter as error:
        return Ended(Outcome.FAILED, FAILED_MESSAGE, {"error": str(error)})
    rows = SqlRows((), [])
    for statement in sql_statements(text):
        request = SqlRequest(
            statement_id=str(uuid.uuid4()),
            statement=statement,
            metastore_root=workspace.layout.metastore_root(workspace.metastore),
            volumes_root=workspace.layout.volumes_root(workspace.metastore),
            parameters=tuple(SqlParameter(name, given[name]) for name in sql_parameters(statement) if name in given),
            row_limit=ROWS_LIMIT,
            workspace=workspace.name,
            task_run_id=attempt.run_id,
            host=workspace.host,
            token=workspace.credentials.token,
            ca_file=workspace.ca_file,
        )
        try:
            rows = await workspace.sql.runner.run_sql(request)
        except SqlFailed as error:
            return Ended(Outcome.FAILED, FAILED_MESSAGE, {"error": f"[{error.error_code}] {error.message}"})
    names = [column.name for column in rows.columns]
    listed = [dict(zip(names, row, strict=True)) for row in rows.rows]
    output = {"rows": listed, "first_row": listed[0] if listed else {}, "query_text": text}
    return Ended(Outcome.SUCCESS, "", {"output": output})
