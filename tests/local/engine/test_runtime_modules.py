"""What code of a notebook finds where a Databricks cluster has modules and objects of its own."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from databricks_bridge.local.engine.dbutils import DBUtils
from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.job_context import CommandContext
from databricks_bridge.local.engine.paths import VolumePaths

from .lab import Lab

CONTEXT = {"runId": "7", "multitaskParentRunId": "6", "taskKey": "t", "jobId": "5", "orgId": "99"} | {
    "notebookPath": "/Shared/n",
    "user": "local-workspace",
}

EVERYTHING = """
from databricks.sdk.runtime import *
from databricks.sdk.runtime import dbutils as imported, spark as session, display as shown, sql as by_sql
from databricks.sdk import WorkspaceClient
from databricks.sdk.runtime import is_local_implementation
import helper

mine = globals()["dbutils"]
same = [imported is mine, session is spark, shown is display, WorkspaceClient().dbutils is mine, not is_local_implementation]
imported.jobs.taskValues.set("a", 1)
helper.tell("b", 2)

from pyspark.dbutils import DBUtils
same.append(DBUtils(spark) is mine)
import IPython
same.append(IPython.get_ipython().user_ns["dbutils"] is mine)
same.append(get_ipython().user_ns["spark"] is spark)
displayHTML("<b>bold</b>")
widgets = [getArgument("day"), getArgument("none", "default"), dbutils.widgets.getArgument("day")]
names = [by_sql("SELECT 1 AS x").first().x, sqlContext.sql("SELECT 2 AS x").first().x, udf(lambda: 1).returnType.simpleString()]

import json
context = dbutils.notebook.entry_point.getDbutils().notebook().getContext()
said = json.loads(context.toJson())
from dbruntime.databricks_repl_context import get_context
asked = [context.notebookPath().get(), context.tags().get("jobId").get(), context.currentRunId().get().id(),
    str(context.currentRunId()), context.tags().apply("taskKey"), context.apiUrl().get(), context.apiToken().get(),
    context.userName().get(), context.jobId().getOrElse(None), context.clusterId().isDefined(), get_context().jobId]
users = list(spark.sql("SELECT current_user(), session_user(), user()").first())
dbutils.notebook.exit(repr((same, widgets, names, said, asked, users)))
"""


@pytest.fixture
def workspace() -> Iterator[str]:
    """The address of a server that knows nothing: the SDK's client asks it who it is, and would wait for an answer."""

    class Nothing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.spark
def test_what_a_notebook_imports_is_its_own(lab: Lab, workspace: str) -> None:
    request = lab.request(EVERYTHING, day="monday")
    request.notebook.with_name("helper.py").write_text(
        "from databricks.sdk.runtime import dbutils\n\ndef tell(key, value):\n    dbutils.jobs.taskValues.set(key, value)\n"
    )
    result = lab.call(lab.engine.run(replace(request, context=CONTEXT, host=workspace)))
    assert result.succeeded, result.error_trace
    same, widgets, names, said, asked, users = ast.literal_eval(result.exit_value)
    assert same == [True] * 8
    assert result.task_values == {"a": 1, "b": 2}
    assert widgets == ["monday", "default", "monday"]
    assert names == [1, 2, "string"]
    tags = {name: value for name, value in CONTEXT.items() if name != "notebookPath"}
    assert said == {
        "rootRunId": {"id": 6},
        "currentRunId": {"id": 7},
        "jobGroup": None,
        "tags": tags,
        "extraContext": {"notebook_path": "/Shared/n", "api_url": workspace},
    }
    assert asked == ["/Shared/n", "5", 7, "Some(7)", "t", workspace, "dapi-test", "local-workspace", "5", False, "5"]
    assert users == ["local-workspace"] * 3
    assert "<b>bold</b>" in request.log.read_text()


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("dbutils.notebook.entry_point.getLogger()", "getLogger is not served"),
        (
            "dbutils.notebook.entry_point.getDbutils().notebook().getContext().sparkVersion()",
            "sparkVersion is not served",
        ),
        ("dbutils.data.summarize(1)", "dbutils.data.summarize is not served"),
        ("dbutils.preview", "dbutils.preview is not served"),
        ("dbutils.secrets.get('a', 'b')", "dbutils.secrets.get is not served"),
    ],
)
def test_what_dbutils_lacks_is_refused_by_name(expression: str, words: str, tmp_path: Path) -> None:
    dbutils = DBUtils({}, VolumePaths(tmp_path))
    with pytest.raises(NotServedHere) as raised:
        eval(expression, {"dbutils": dbutils})
    assert words in str(raised.value)
    assert "local workspace" in str(raised.value)


def test_a_run_without_a_job_has_no_job() -> None:
    context = CommandContext({"runId": "1"}, "http://127.0.0.1:9", "secret-token")
    assert (context.isInJob(), context.jobId().isEmpty(), context.tags().get("jobId").isDefined()) == (
        False,
        True,
        False,
    )
    assert context.tags().getOrElse("jobId", "interactive") == "interactive"
    assert "secret-token" not in context.toJson()
    with pytest.raises(ValueError, match="no such value"):
        context.jobId().get()


def test_an_ipython_that_is_installed_answers_with_the_notebook_too(tmp_path: Path) -> None:
    """In a process of its own, since modules are added."""
    (tmp_path / "IPython").mkdir()
    (tmp_path / "IPython" / "__init__.py").write_text("def get_ipython():\n    return None\nkept = 1\n")
    program = """
import json
from databricks_bridge.local.engine.job_context import CommandContext
from databricks_bridge.local.engine.runtime_modules import install
names = {"display": print, "displayHTML": print, "dbutils": 5}
install(names, CommandContext({}, "http://127.0.0.1:9", "t"))
import IPython
print(json.dumps([IPython.get_ipython().user_ns["dbutils"], IPython.kept]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == [5, 1]
