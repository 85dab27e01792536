"""The process that runs SQL statements, several at once. JSON lines on standard input, JSON lines on standard output.

The first line opens the session: `key`, `volumes_root`. Then one line for each statement, `{"id": ..., "statement": ...}`,
or `{"id": ..., "cancel": true}`. The end of standard input ends the process.
"""

from __future__ import annotations

import json
import os
import queue
import re
import sys
import threading
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.lifeline import die_with_parent
from databricks_bridge.local.engine.replies import Reply, take_standard_output
from databricks_bridge.local.engine.workspace_api import WorkspaceApi, asking
from databricks_bridge.local.sql.results import parameters_of, shown

AT_ONCE = 4
"""So many statements run at the same time; the others wait, as on a warehouse that is full."""
DEFAULT_SCHEMA = "default"
JAVA_LINEAGE = "databricks_bridge.local.Lineage"
_CATALOG = "spark.sql.catalog."
_JVM_STACK = re.compile(r"\n\nJVM stacktrace:.*", re.DOTALL)


def main() -> None:
    die_with_parent()
    reply = take_standard_output()
    lines = iter(sys.stdin)
    first = json.loads(next(lines))
    pool = _Pool(first["key"], Path(first["volumes_root"]))
    reply({"id": first["id"]})
    for line in lines:
        order = json.loads(line)
        work = pool.cancel if order.get("cancel") else pool.run
        if work == pool.run:
            pool.known.add(order["id"])
        threading.Thread(target=work, args=(order, reply), daemon=True).start()
    os._exit(0)


class _Pool:
    """Sessions for statements, one statement in each at a time."""

    def __init__(self, key: str, volumes_root: Path) -> None:
        from databricks_bridge.local.engine.paths import VolumePaths
        from databricks_bridge.local.engine.session import attach

        self._spark = attach(key, VolumePaths(volumes_root))
        self._free: queue.Queue[Any] = queue.Queue()
        self.known: set[str] = set()
        self._cancelled: set[str] = set()
        self._free.put(self._spark)
        for _ in range(AT_ONCE - 1):
            self._free.put(self._spark.newSession())

    def run(self, order: dict[str, Any], reply: Reply) -> None:
        session = self._free.get()
        context = self._spark.sparkContext
        try:
            context.setJobGroup(order["id"], "SQL statement", interruptOnCancel=True)
            if order["id"] not in self._cancelled:
                reply({"id": order["id"], **_answer(session, order)})
        except Exception as error:  # noqa: BLE001 - whatever a statement raises is its result
            reply({"id": order["id"], "error": _error(error)})
        finally:
            self.known.discard(order["id"])
            self._cancelled.discard(order["id"])
            self._free.put(session)

    def cancel(self, order: dict[str, Any], reply: Reply) -> None:
        if order["id"] in self.known:
            self._cancelled.add(order["id"])
            # And future jobs: the statement may not have come to its first one.
            self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(order["id"])


def _answer(session: Any, order: dict[str, Any]) -> dict[str, Any]:
    # Catalogs that have been made since the session was opened; one that Spark has loaded keeps its settings.
    for name, value in order["settings"].items():
        if name.startswith(_CATALOG) and session.conf.get(name, None) is None:
            session.conf.set(name, value)
    session.sql(_use(order))
    arguments = parameters_of(order["parameters"])
    with asking(WorkspaceApi(order["host"], order["token"], order["ca_file"])):
        frame = session.sql(order["statement"], arguments or None)
    answer = shown(frame, order["row_limit"])
    lineage = getattr(session.sparkContext._jvm, JAVA_LINEAGE).json(frame._jdf.queryExecution())
    return {**answer, "lineage": json.loads(lineage)}


def _use(order: dict[str, Any]) -> str:
    """What sets the session's defaults anew: a statement before may have changed them."""
    settings = order["settings"]
    catalog = order["catalog"] or settings["spark.sql.defaultCatalog"]
    root = settings.get(f"{_CATALOG}{catalog}.root")
    if not order["schema"] and root is not None and not Path(root, DEFAULT_SCHEMA).is_dir():
        return f"SET CATALOG {_quoted(catalog)}"
    return f"USE {_quoted(catalog)}.{_quoted(order['schema'] or DEFAULT_SCHEMA)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _error(error: Exception) -> dict[str, Any]:
    state = getattr(error, "getSqlState", lambda: None)()
    raised = getattr(error, "java_exception", None)
    said = str(error) if raised is None else str(raised.getMessage())
    message = _JVM_STACK.sub("", said).strip() or type(error).__name__
    return {"message": message, "error_code": "BAD_REQUEST", "sql_state": state or None}


if __name__ == "__main__":
    main()
