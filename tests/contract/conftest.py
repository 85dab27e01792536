"""Two workspaces for the same tests: a local one, and a real one where the environment names it and agrees to it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from tests.local.clients.fake_sql import FakeSql
from tests.local.local_kit import Notebooks, client

REAL = {
    "DATABRICKS_HOST": "the workspace",
    "DATABRICKS_BRIDGE_CONTRACT": "1, which says that these tests may write there",
    "DATABRICKS_BRIDGE_CONTRACT_SCHEMA": "catalog.schema, where a volume may be made",
    "DATABRICKS_BRIDGE_CONTRACT_FOLDER": "a workspace folder, where files may be made",
}
"""What a real workspace takes; its credentials are the SDK's own variables, such as DATABRICKS_TOKEN."""
WAREHOUSE = "DATABRICKS_BRIDGE_CONTRACT_WAREHOUSE"
"""A SQL warehouse of the real workspace, by its id. Statements are left out without it."""
PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Contract:
    """One workspace, whichever it is: its SDK client, and where tests may write. What they make is theirs to remove."""

    client: Any
    schema: str
    folder: str
    warehouse: str | None
    cleanup: ExitStack = field(default_factory=ExitStack)

    def call(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        """The raw answer. What it names and what it gives are the API's, as the SDK sends and takes them."""
        given = {"query": body} if method == "GET" else {"body": body}
        return dict(self.client.api_client.do(method, path, **given) or {})

    def job(self, **settings: Any) -> int:
        """A job whose only task compares two numbers, so it takes no compute. Gone after the test."""
        task = {"task_key": "compare", "condition_task": {"op": "EQUAL_TO", "left": "1", "right": "1"}}
        body = {"name": unique(), "tasks": [task], "max_concurrent_runs": 10, **settings}
        job_id = int(self.call("POST", "/api/2.2/jobs/create", **body)["job_id"])
        self.later(lambda: self.call("POST", "/api/2.2/jobs/delete", job_id=job_id))
        return job_id

    def run(self, run_id: int, **query: Any) -> dict[str, Any]:
        return self.call("GET", "/api/2.2/jobs/runs/get", run_id=run_id, **query)

    def ended(self, run_id: int) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            run = self.run(run_id)
            return run if run["status"]["state"] == "TERMINATED" else None

        return dict(self.until(look))

    def until(self, look: Callable[[], Any]) -> Any:
        """What `look` gives as soon as it is true."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := look()):
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s"
            time.sleep(0.02 if "127.0.0.1" in self.client.config.host else 2)
        return found

    def later(self, remove: Callable[[], Any]) -> None:
        """Remove what was made, after the test; what is gone already is not an error."""

        def removed() -> None:
            from databricks.sdk.errors.base import DatabricksError

            try:
                remove()
            except DatabricksError as error:
                if "not exist" not in str(error) and "doesn't exist" not in str(error):
                    raise

        self.cleanup.callback(removed)


def unique() -> str:
    """A name that nobody else has."""
    return f"bridge_contract_{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module", params=["local", "real"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contract]:
    if request.param == "real":
        yield _real()
        return
    home = tmp_path_factory.mktemp("contract") / "home"
    with deployment_in_thread(home, ["ops"], engine=InstantEngine(Notebooks().run), sql=FakeSql()) as up:
        ops = client(up, "ops")
        ops.catalogs.create("main")
        ops.schemas.create("contract", "main")
        ops.workspace.mkdirs("/Shared/contract")
        yield Contract(ops, "main.contract", "/Shared/contract", next(iter(ops.warehouses.list())).id)


def _real() -> Contract:
    missing = [name for name in REAL if not os.environ.get(name)]
    if missing or os.environ["DATABRICKS_BRIDGE_CONTRACT"] != "1":
        pytest.skip(f"no real workspace is named, or it may not be written to: set {', '.join(missing or REAL)}")
    from databricks.sdk import WorkspaceClient

    schema, folder = (os.environ[f"DATABRICKS_BRIDGE_CONTRACT_{name}"] for name in ("SCHEMA", "FOLDER"))
    return Contract(WorkspaceClient(), schema, folder.rstrip("/"), os.environ.get(WAREHOUSE) or None)


@pytest.fixture
def workspace(place: Contract) -> Iterator[Contract]:
    """A local and a real workspace, each in its turn; what a test makes there is removed after it."""
    with place.cleanup:
        yield place
