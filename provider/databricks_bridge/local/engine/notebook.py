"""Runs the cells of one notebook with the names that Databricks gives it."""

from __future__ import annotations

import linecache
import os
import re
import sys
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from databricks_bridge.local.engine.dbutils import DBUtils, NotebookExit
from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.model import NotebookResult
from databricks_bridge.local.engine.runtime_modules import install
from databricks_bridge.local.engine.source import Cell, CellKind, parse_notebook, sql_parameters, sql_statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_ROWS = 20
_CAUSE = re.compile(r"^Caused by: (?:\w+\.)*([\w$]+: .*)$", re.MULTILINE)


def run_notebook(notebook: Path, spark: SparkSession, dbutils: DBUtils) -> NotebookResult:
    """Run all cells, then wait for the streams that they left running, as a job on Databricks does."""
    names = namespace(notebook, spark, dbutils)
    install(names, dbutils.context)
    started = _record_streams()
    cells: list[tuple[int, int, int]] = []
    exit_value = None
    try:
        for cell in parse_notebook(notebook.read_text(encoding="utf-8-sig")):
            begin = _printed()
            try:
                _run_cell(cell, names, notebook)
            finally:
                cells.append((cell.first_line, begin, _printed()))
        for stream in started:
            if not stream.was_awaited:
                stream.query.awaitTermination()
    except NotebookExit as exited:
        exit_value = exited.value
    except BaseException as error:  # noqa: BLE001 - whatever a notebook raises, SystemExit too, is its result
        result = failed(error, _from_notebook(error.__traceback__, str(notebook)))
        return replace(result, task_values=dbutils.jobs.taskValues.own, cells=cells)
    return NotebookResult(
        succeeded=True,
        exit_value=exit_value,
        error=None,
        error_trace=None,
        task_values=dbutils.jobs.taskValues.own,
        cells=cells,
    )


def namespace(notebook: Path, spark: SparkSession, dbutils: DBUtils) -> dict[str, Any]:
    """The names that a notebook has without an import, as on Databricks."""
    from pyspark.sql import SQLContext
    from pyspark.sql.functions import udf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        sql_context = SQLContext(spark.sparkContext, spark)
    return {
        "__name__": "__main__",
        "__file__": str(notebook),
        "spark": spark,
        "sc": spark.sparkContext,
        "sqlContext": sql_context,
        "sql": spark.sql,
        "table": spark.table,
        "udf": udf,
        "dbutils": dbutils,
        "display": display,
        "displayHTML": display_html,
        "getArgument": dbutils.widgets.getArgument,
    }


def _printed() -> int:
    """How long the log is, to which standard output and error go; 0 where that is no file."""
    sys.stdout.flush()
    sys.stderr.flush()
    return os.fstat(1).st_size


def failed(error: BaseException, trace: TracebackType | None) -> NotebookResult:
    """The result of a run that ended with `error`, with the frames of `trace`."""
    said = "".join(traceback.format_exception(type(error), error, trace))
    cause = _cause_in_the_jvm(error)
    return NotebookResult(
        succeeded=False,
        exit_value=None,
        error=f"{type(error).__name__}: {error}{cause}",
        error_trace=said + cause,
    )


def _cause_in_the_jvm(error: BaseException) -> str:
    """The innermost cause of a Spark error as a line of its own, unless its message names it already.

    A stream's error says only that a write failed; why is in the JVM's stack, which nobody reads.
    """
    causes = _CAUSE.findall(str(getattr(error, "_stackTrace", None) or ""))
    return f"\nCaused by: {causes[-1]}" if causes and causes[-1].partition(": ")[2] not in str(error) else ""


def display(value: Any, *args: Any, **kwargs: Any) -> None:
    """Print the first rows of a DataFrame, or the value."""
    from pyspark.sql import DataFrame

    if not isinstance(value, DataFrame):
        print(value)
        return
    if value.isStreaming:
        raise NotServedHere("display of a stream is not served by the local workspace; write it to a table.")
    value.show(SHOWN_ROWS, truncate=False)


def display_html(html: Any) -> None:
    """Print the HTML: there is no page to show it in."""
    print(html)


def _run_cell(cell: Cell, names: dict[str, Any], notebook: Path) -> None:
    match cell.kind:
        case CellKind.PYTHON:
            # Blank lines before it give the traceback the notebook's own line numbers.
            code = compile("\n" * (cell.first_line - 1) + cell.text, str(notebook), "exec")
            linecache.checkcache(str(notebook))
            exec(code, names)
        case CellKind.SQL:
            _run_sql(cell.text, names)
        case CellKind.MARKDOWN:
            pass


def _run_sql(text: str, names: dict[str, Any]) -> None:
    widgets = names["dbutils"].widgets.getAll()
    for statement in sql_statements(text):
        arguments = {name: widgets[name] for name in sql_parameters(statement) if name in widgets}
        names["_sqldf"] = names["spark"].sql(statement, arguments or None)
    if "_sqldf" in names:
        display(names["_sqldf"])


class StartedStream:
    """A stream that the notebook started, and whether the notebook waited for it itself."""

    def __init__(self, query: Any) -> None:
        self.query = query
        self.was_awaited = False
        wait = query.awaitTermination

        def await_termination(timeout: int | None = None) -> Any:
            self.was_awaited = True
            return wait(timeout)

        query.awaitTermination = await_termination


def _record_streams() -> list[StartedStream]:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    started: list[StartedStream] = []
    writer: Any = DataStreamWriter

    def recording(start: Any) -> Any:
        def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            query = start(self, *args, **kwargs)
            started.append(StartedStream(query))
            return query

        return begin

    writer.start, writer.toTable = recording(writer.start), recording(writer.toTable)
    return started


def _from_notebook(trace: TracebackType | None, notebook: str) -> TracebackType | None:
    """The part of the trace that begins in the notebook, or None: the engine's own frames tell an author nothing."""
    while trace is not None and trace.tb_frame.f_code.co_filename != notebook:
        trace = trace.tb_next
    return trace
