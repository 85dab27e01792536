"""Jobs of a local workspace that files fire, and a sensor that waits for their runs in each way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import TaskDeferred

from databricks_bridge import DatabricksTriggeredRunSensor
from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import Api, Notebooks, eventually, write_notebook
from tests.sensors.worker import NOON

EARLY = "2020-01-01T00:00:00+00:00"
WAYS: dict[str, dict[str, Any]] = {"poke": {"mode": "poke"}, "deferrable": {"deferrable": True}}
MODES = {**WAYS, "reschedule": {"mode": "reschedule"}}


@dataclass
class Fired:
    """The workspace `ops`. Each job has a name, a notebook and a folder of its own."""

    deployment: Deployment
    notebooks: Notebooks
    api: Api
    names: list[str] = field(default_factory=list)

    def job(self, *, task: dict[str, str] | None = None, files: int = 0, **settings: Any) -> int:
        """`task` are its base parameters, `files` those that are in its folder already."""
        name = f"job{len(self.names)}"
        self.names.append(name)
        self.folder().mkdir(parents=True)
        for number in range(files):
            (self.folder() / str(number)).touch()
        notebook = {"notebook_path": write_notebook(self.deployment, "ops", name), "base_parameters": task or {}}
        starts = {"trigger": self.trigger()} if not settings.keys() & {"schedule", "continuous", "triggers"} else {}
        given = {"name": name, "tasks": [{"task_key": "main", "notebook_task": notebook}], **starts, **settings}
        return int(self.api.post("create", **given)["job_id"])

    def url(self) -> str:
        """The folder that fires the newest job."""
        return f"/Volumes/main/landing/{self.names[-1]}/"

    def trigger(self, **more: Any) -> dict[str, Any]:
        return {"file_arrival": {"url": self.url()}, **more}

    def folder(self) -> Any:
        return self.deployment.layout.volume_path("ops", self.url())

    def land(self, name: str, text: str = "{}") -> None:
        (self.folder() / f".{name}").write_text(text)
        (self.folder() / f".{name}").rename(self.folder() / name)

    def history(self, job_id: int) -> dict[str, Any]:
        details = self.api.get("get", job_id=job_id, include_trigger_history="true")["trigger_details"]
        return dict(details[0]["history"])

    def said(self, job_id: int, what: str) -> dict[str, Any]:
        """The line of its trigger's history, once it is there."""
        return dict(eventually(lambda: self.history(job_id).get(what)))

    def run(self, job_id: int) -> dict[str, Any]:
        """The newest run of the job, once it has ended."""
        (run, *_) = eventually(lambda: self.api.get("runs/list", job_id=job_id).get("runs"))
        return self.api.ended(run["run_id"])

    @contextmanager
    def fault(self, **fault: str) -> Iterator[None]:
        """A fault of the workspace, ended again."""
        do = self.api.workspace_client.api_client.do
        made = do("POST", "/local/faults", body=fault)
        try:
            yield
        finally:
            do("DELETE", f"/local/faults/{made['fault_id']}")


def sensor(job_id: int, way: str, **arguments: Any) -> DatabricksTriggeredRunSensor:
    given: dict[str, Any] = {"task_id": "wait", "databricks_conn_id": "ops", "job_id": job_id, "since": EARLY}
    given |= {"poke_interval": 0.1, "timeout": 20}
    return DatabricksTriggeredRunSensor(**(given | MODES[way] | arguments))


def answer_of(task: DatabricksTriggeredRunSensor, deferred: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """What the task returns; the triggerer's part in a loop of its own, from what was stored, after `deferred`."""
    context: Any = {"dag_run": SimpleNamespace(run_after=NOON)}
    try:
        return dict(task.execute(context))
    except TaskDeferred as pause:
        path, arguments = pause.trigger.serialize()
    deferred()
    module, _, name = path.rpartition(".")
    trigger = getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))
    return dict(task.execute_complete(context, asyncio.run(_event_of(trigger))))


async def _event_of(trigger: Any) -> dict[str, Any]:
    try:
        async with asyncio.timeout(30):
            return dict((await anext(trigger.run())).payload)
    finally:
        await trigger.cleanup()
