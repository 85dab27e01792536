"""Text that UTF-8 cannot write, half of a surrogate pair: what notebooks give of it comes out as legal JSON, never as a 500."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from databricks_bridge.local import server
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.runs import execution
from databricks_bridge.local.runs.records import get_attempt, put_attempt
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.texts import whole_text
from tests.local.local_kit import OK, Api, Notebooks, client, write_notebook

HALF, WHOLE = "a\ud800b\udcff", "a\ufffdb\ufffd"
TWO_HALVES, ONE = "\ud83d\ude00", "\U0001f600"


class Lab:
    """One workspace whose notebooks give odd text, and a client that sees each answer as it is."""

    def __init__(self, deployment: Deployment, notebooks: Notebooks, http: httpx.Client) -> None:
        self.deployment, self.notebooks, self.http = deployment, notebooks, http
        self.api = Api(client(deployment, "ops"))

    def task(self, key: str, **base: str) -> dict[str, Any]:
        path = write_notebook(self.deployment, "ops", key)
        return {"task_key": key, "notebook_task": {"notebook_path": path, "base_parameters": base}}

    def ended(self, *tasks: dict[str, Any]) -> dict[str, Any]:
        """A run of these tasks, when it has ended."""
        job_id = self.api.post("create", name="job", tasks=list(tasks))["job_id"]
        return self.api.ended(self.api.post("run-now", job_id=job_id)["run_id"], include_resolved_values=True)

    def of(self, key: str, result: NotebookResult) -> int:
        """The task run id of a notebook that gave this."""
        self.notebooks.functions[key] = lambda request: result
        return int(self.ended(self.task(key))["tasks"][0]["run_id"])

    def get(self, path: str, **query: Any) -> Any:
        """An answer, read as strictly as a client in another language would."""
        answer = self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        assert "\\ud" not in answer.content.decode().lower()
        return answer.json()

    def output(self, run_id: int) -> Any:
        return self.get("/api/2.2/jobs/runs/get-output", run_id=run_id)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    notebooks = Notebooks()
    home = tmp_path_factory.mktemp("odd") / "home"
    with deployment_in_thread(home, ["ops"], engine=InstantEngine(notebooks.run)) as up:
        headers = {"Authorization": f"Bearer {up.token('ops')}"}
        with httpx.Client(base_url=up.host("ops"), headers=headers, timeout=20) as http:
            yield Lab(up, notebooks, http)


def test_an_exit_value(lab: Lab) -> None:
    shown = lab.output(lab.of("exit", replace(OK, exit_value=HALF + TWO_HALVES)))
    assert shown["notebook_output"] == {"result": WHOLE + ONE, "truncated": False}


def test_an_error_and_its_trace(lab: Lab) -> None:
    run_id = lab.of("error", NotebookResult(False, None, f"ValueError: {HALF}", f"Traceback ...\nValueError: {HALF}"))
    shown = lab.output(run_id)
    assert (shown["error"], shown["error_trace"]) == (f"ValueError: {WHOLE}", f"Traceback ...\nValueError: {WHOLE}")
    exported = lab.get("/api/2.2/jobs/runs/export", run_id=run_id)
    assert f"ValueError: {WHOLE}" in exported["views"][0]["content"]


def test_a_task_value_and_what_refers_to_it(lab: Lab) -> None:
    lab.notebooks.functions["setter"] = lambda request: replace(OK, task_values={"v": HALF, "w": {HALF: [HALF, 1]}})
    reader = {**lab.task("reader", v="{{tasks.setter.values.v}}"), "depends_on": [{"task_key": "setter"}]}
    run = lab.ended(lab.task("setter"), reader)
    (request,) = lab.notebooks.runs_of("reader")
    assert request.parameters == {"v": WHOLE}
    assert request.task_values == {"setter": {"v": WHOLE, "w": {WHOLE: [WHOLE, 1]}}}
    shown = lab.get("/api/2.2/jobs/runs/get", run_id=run["run_id"], include_resolved_values="true")
    assert shown["tasks"][1]["resolved_values"] == {"notebook_task": {"base_parameters": {"v": WHOLE}}}


def test_an_input_of_a_loop(lab: Lab) -> None:
    loop = {"inputs": json.dumps([HALF, {"f": HALF}]), "task": lab.task("each", v="{{input}}")}
    run = lab.ended({"task_key": "loop", "for_each_task": loop})
    assert [request.parameters["v"] for request in lab.notebooks.runs_of("each")] == [WHOLE, json.dumps({"f": WHOLE})]
    answer = lab.http.get("/api/2.2/jobs/runs/get", params={"run_id": run["tasks"][0]["run_id"]})
    assert [one["state"]["result_state"] for one in answer.json()["iterations"]] == ["SUCCESS"] * 2


def test_an_engine_that_breaks_with_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several processes of pytest cannot hand on a report that has such text in its log.
    monkeypatch.setattr(execution.log, "disabled", True)

    def breaks(request: NotebookRun) -> NotebookResult:
        raise RuntimeError(HALF)

    lab.notebooks.functions["breaks"] = breaks
    run_id = lab.ended(lab.task("breaks"))["tasks"][0]["run_id"]
    assert lab.output(run_id)["error"] == f"The local workspace could not run the task: RuntimeError: {WHOLE}"


def test_what_an_older_release_kept_of_it(lab: Lab) -> None:
    run_id = lab.of("older", OK)
    store = lab.deployment.workspaces["ops"].store
    kept = get_attempt(store, run_id)
    assert kept is not None
    put_attempt(store, replace(kept, exit_value=HALF, error=HALF, message=HALF))
    shown = lab.output(run_id)
    assert (shown["notebook_output"]["result"], shown["error"]) == (WHOLE, WHOLE)
    assert shown["metadata"]["state"]["state_message"] == WHOLE


@pytest.mark.parametrize("name", ["job_parameters", "notebook_params"])
def test_a_parameter_of_run_now_is_refused(lab: Lab, name: str) -> None:
    job_id = lab.api.post("create", name="job", tasks=[lab.task("main")])["job_id"]
    body = f'{{"job_id": {job_id}, "{name}": {{"p": "\\ud800"}}}}'
    answer = lab.http.post("/api/2.2/jobs/run-now", content=body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "MALFORMED_REQUEST")


def test_text_that_can_be_written_stays_as_it_is() -> None:
    for text in ("", "plain", "é\u2028\x00\ufeff", ONE):
        assert whole_text(text) is text or whole_text(text) == text
        assert json.loads(bytes(JSONResponse({"t": text}).body)) == {"t": text}
    assert json.loads(bytes(JSONResponse([{HALF: (HALF, None, 1.5)}]).body)) == [{WHOLE: [WHOLE, None, 1.5]}]


def test_the_server_has_one_way_to_write_json() -> None:
    for module in Path(server.__file__).parent.glob("*.py"):
        if module.name != "responses.py":
            assert not re.search(r"(?:fastapi|starlette)\.responses import .*JSONResponse", module.read_text()), module
