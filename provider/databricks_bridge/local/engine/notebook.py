"""Runs the cells of one notebook with the names that Databricks gives it."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
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
_INFINITE = (
    "[INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED] Trigger type {} is not supported for this cluster type. Use a different "
    "trigger type e.g. AvailableNow, Once. SQLSTATE: 0A000 (The task names no cluster, so it is serverless. A task with "
    "existing_cluster_id, job_cluster_key or new_cluster may stream without an end.)"
)
_NEW_FIELDS = "[UNKNOWN_FIELD_EXCEPTION"
_CAUSE = re.compile(r"^Caused by: (?:\w+\.)*([\w$]+: .*)$", re.MULTILINE)


def run_notebook(notebook: Path, spark: SparkSession, dbutils: DBUtils, *, serverless: bool = False) -> NotebookResult:
    """Run all cells, then wait for the streams that they left running, as a job on Databricks does.

    On `serverless` compute no stream may be without an end.
    """
    names = namespace(notebook, spark, dbutils)
    install(names, dbutils.context)
    started = _record_streams(serverless=serverless)
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
        wait, process = query.awaitTermination, query.processAllAvailable

        def await_termination(timeout: int | None = None) -> Any:
            self.was_awaited = True
            with _telling_of_new_fields():
                return wait(timeout)

        def process_all_available() -> None:
            with _telling_of_new_fields():
                process()

        query.awaitTermination, query.processAllAvailable = await_termination, process_all_available


@contextlib.contextmanager
def _telling_of_new_fields() -> Iterator[None]:
    """A stream that met new fields says so first, as on Databricks: notebooks look for it in the error, and start again."""
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except CapturedException as error:
        cause = _cause_in_the_jvm(error)
        if _NEW_FIELDS in cause:
            error._desc = f"{cause[cause.index(_NEW_FIELDS) :]}\n{error._desc}"
        raise


def _record_streams(*, serverless: bool) -> list[StartedStream]:
    """Every stream that the notebook starts from now on. On serverless compute none may be without an end."""
    from pyspark.errors import UnsupportedOperationException
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    started: list[StartedStream] = []
    writer: Any = DataStreamWriter

    def with_trigger(self: Any, **kwargs: Any) -> Any:
        self.ends_by_itself = bool(kwargs.get("availableNow") or kwargs.get("once"))
        self.trigger_kind = next(("Continuous" for name in kwargs if name == "continuous"), "ProcessingTime")
        return trigger(self, **kwargs)

    def recording(start: Any) -> Any:
        def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            if serverless and not getattr(self, "ends_by_itself", False):
                raise UnsupportedOperationException(
                    message=_INFINITE.format(getattr(self, "trigger_kind", "ProcessingTime"))
                )
            query = start(self, *args, **kwargs)
            started.append(StartedStream(query))
            return query

        return begin

    trigger, writer.trigger = writer.trigger, with_trigger
    writer.start, writer.toTable = recording(writer.start), recording(writer.toTable)
    return started


def _from_notebook(trace: TracebackType | None, notebook: str) -> TracebackType | None:
    """The part of the trace that begins in the notebook, or None: the engine's own frames tell an author nothing."""
    while trace is not None and trace.tb_frame.f_code.co_filename != notebook:
        trace = trace.tb_next
    return trace
