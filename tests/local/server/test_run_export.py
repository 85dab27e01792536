"""runs/export over HTTP with the official SDK. The notebook is a function that says what its cells printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from tests.local.local_kit import OK, Api, Notebooks, failure, write_notebook

SOURCE = """# Databricks notebook source
print("<one>")

# COMMAND ----------

print("two")
"""


@pytest.fixture
def job_id(deployment: Deployment, api: Api, make_job: Callable[..., int]) -> int:
    made = make_job()
    write_notebook(deployment, "ops", "main")
    (deployment.layout.workspace_files("ops") / "Shared" / "main.py").write_text(SOURCE)
    return made


def test_what_ran_is_exported_with_what_each_cell_printed(
    deployment: Deployment, ops: Any, api: Api, notebooks: Notebooks, job_id: int
) -> None:
    from databricks.sdk.service.jobs import ViewType

    def run(request: NotebookRun) -> NotebookResult:
        request.log.write_text("<one>\ntwo\n")
        return replace(OK, cells=((2, 0, 6), (6, 6, 10)))

    notebooks.functions["main"] = run
    ended = api.ended(api.post("run-now", job_id=job_id)["run_id"])
    (deployment.layout.workspace_files("ops") / "Shared" / "main.py").write_text("changed since")
    (view,) = ops.jobs.export_run(ended["run_id"]).views
    assert (view.name, view.type) == ("main", ViewType.NOTEBOOK)
    places = [
        view.content.index(part)
        for part in (
            "print(&quot;&lt;one&gt;&quot;)",
            '<pre class="output">&lt;one&gt;\n</pre>',
            "print(&quot;two&quot;)",
            '<pre class="output">two\n</pre>',
        )
    ]
    assert places == sorted(places)
    assert "changed since" not in view.content
    assert ops.jobs.export_run(ended["tasks"][0]["run_id"]).views[0].content == view.content


def test_a_failure_is_in_it(ops: Any, api: Api, notebooks: Notebooks, job_id: int) -> None:
    notebooks.functions["main"] = lambda request: failure("ValueError: no")
    ended = api.ended(api.post("run-now", job_id=job_id)["run_id"])
    assert '<pre class="error">ValueError: no</pre>' in ops.jobs.export_run(ended["run_id"]).views[0].content


def test_what_cannot_be_exported_says_why(ops: Any, api: Api) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    task = {"task_key": "c", "condition_task": {"op": "EQUAL_TO", "left": "", "right": ""}}
    run = api.ended(api.post("run-now", job_id=api.post("create", name="c", tasks=[task])["job_id"])["run_id"])
    with pytest.raises(InvalidParameterValue, match="is not a notebook task"):
        ops.jobs.export_run(run["run_id"])
    nowhere = {"task_key": "n", "notebook_task": {"notebook_path": "/nowhere"}}
    run = api.ended(api.post("run-now", job_id=api.post("create", name="n", tasks=[nowhere])["job_id"])["run_id"])
    with pytest.raises(InvalidParameterValue, match="has not run its notebook"):
        ops.jobs.export_run(run["run_id"])
