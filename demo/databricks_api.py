"""The three workspaces as the demo sees them: the official SDK as client, raw JSON as answer.

Raw, because the SDK turns a trigger kind that it does not know into None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.places import DemoFailed

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

Json = dict[str, Any]
ACTIVE = {"BLOCKED", "PENDING", "QUEUED", "RUNNING", "TERMINATING", "WAITING"}


@dataclass(frozen=True)
class Workspace:
    """One workspace of the local deployment."""

    name: str
    host: str
    token: str

    def __repr__(self) -> str:
        return f"Workspace({self.name} at {self.host})"

    @cached_property
    def client(self) -> WorkspaceClient:
        from databricks.sdk import WorkspaceClient
        from databricks.sdk.config import Config

        # Everything is said here: neither ~/.databrickscfg nor DATABRICKS_* may lead the demo to a real workspace.
        return WorkspaceClient(
            config=Config(
                host=self.host, token=self.token, auth_type="pat", retry_timeout_seconds=30, http_timeout_seconds=30
            )
        )

    def get(self, path: str, **query: Any) -> Json:
        return self._do("GET", path, query=query)

    def post(self, path: str, body: Json) -> Json:
        return self._do("POST", path, body=body)

    def delete(self, path: str) -> None:
        self._do("DELETE", path)

    def job_id(self, name: str) -> int:
        """The id of the one job of that name. Raises DemoFailed when there is none, or more than one."""
        found = [job["job_id"] for job in self.get("/api/2.2/jobs/list", name=name).get("jobs", [])]
        if len(found) != 1:
            raise DemoFailed(f"{self.name} has {len(found)} jobs named {name}")
        return int(found[0])

    def runs(self, job: str) -> list[Json]:
        """All runs of a job, oldest first, as runs/list gives them."""
        return sorted(self._pages(self.job_id(job)), key=lambda run: (run["start_time"], run["run_id"]))

    def run(self, run_id: int) -> Json:
        """One run with its parameters."""
        return self.get("/api/2.2/jobs/runs/get", run_id=run_id)

    def output(self, run: Json) -> Json:
        """What the run's only task left behind."""
        return self.get("/api/2.2/jobs/runs/get-output", run_id=run["tasks"][0]["run_id"])

    def _pages(self, job_id: int) -> Iterator[Json]:
        query: Json = {"job_id": job_id, "limit": 24}
        while True:
            page = self.get("/api/2.2/jobs/runs/list", **query)
            yield from page.get("runs", [])
            if not page.get("next_page_token"):
                return
            query["page_token"] = page["next_page_token"]

    def _do(self, method: str, path: str, **kwargs: Any) -> Json:
        answer = self.client.api_client.do(method, path, **kwargs)
        return answer if isinstance(answer, dict) else {}


def workspaces(deployment: Path) -> dict[str, Workspace]:
    """Name to workspace, from the file that the local deployment writes when it is ready."""
    described = json.loads(deployment.read_text())["workspaces"]
    return {name: Workspace(name, entry["host"], entry["token"]) for name, entry in described.items()}


def is_active(run: Json) -> bool:
    return run["status"]["state"] in ACTIVE


def succeeded(run: Json) -> bool:
    return bool(run["state"].get("result_state") == "SUCCESS")
