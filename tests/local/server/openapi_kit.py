"""A furnished deployment for the description, and its operations as schemathesis sees them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from requests import PreparedRequest
from requests.auth import AuthBase

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.openapi.document import described, document, plain
from databricks_bridge.local.pages import session
from databricks_bridge.local.workspace_spec import WorkspaceSpec
from tests.local.clients.fake_sql import FakeSql
from tests.local.local_kit import Api, Notebooks, client, failure, write_notebook

JOBS = 12
# One for all calls: it takes longer to make than to use.
HTTP = httpx.Client(verify=False, timeout=20, trust_env=False)
Json = dict[str, Any]


@contextmanager
def furnished(home: Path) -> Iterator[Deployment]:
    """The workspaces ops and met: jobs with runs of every kind, tables, volumes with files, shares both ways."""
    notebooks = Notebooks({"bad": lambda request: failure("ValueError: bad row")})
    notebooks.block("open")
    specs = [WorkspaceSpec("ops"), WorkspaceSpec("met")]
    with deployment_in_thread(home, specs, engine=InstantEngine(notebooks.run), sql=FakeSql()) as up:
        for name, other in (("ops", "met"), ("met", "ops")):
            _catalog(up, name)
            share = {"catalog": f"from_{other}", "source_metastore": other, "source_catalog": "main"}
            call(up, name, "POST", "/local/shares", json={**share, "schemas": ["silver"]}).raise_for_status()
        _jobs(up)
        yield up


def _catalog(up: Deployment, name: str) -> None:
    import pyarrow as pa
    from databricks.sdk.service.catalog import VolumeType
    from deltalake import write_deltalake

    sdk = client(up, name)
    sdk.catalogs.create("main")
    sdk.schemas.create("silver", "main")
    sdk.volumes.create("main", "silver", "landing", VolumeType.MANAGED)
    for number in range(3):
        path = up.layout.table_path(name, f"main.silver.t{number}")
        write_deltalake(str(path), pa.table({"n": [1]}), configuration={"delta.enableChangeDataFeed": "true"})
        call(up, name, "PUT", f"/api/2.0/fs/files/Volumes/main/silver/landing/f{number}.json", content=b"{}")


def _jobs(up: Deployment) -> None:
    api = Api(client(up, "ops"))
    runs = []
    for number in range(JOBS):
        name = ("main", "bad", "open")[number % 3]
        task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(up, "ops", name)}}
        trigger = {"file_arrival": {"url": f"/Volumes/main/silver/landing/{number}/"}} if number % 2 else None
        settings = {"name": f"{name}-{number}", "tasks": [task], **({"trigger": trigger} if trigger else {})}
        job_id = api.post("create", **settings)["job_id"]
        runs += [(name, api.post("run-now", job_id=job_id)["run_id"]) for _ in range(2)]
    for name, run_id in runs:
        if name != "open":
            api.ended(run_id)


@contextmanager
def remote_repository(folder: Path) -> Iterator[str]:
    """The address of a repository with one commit, which git looks for on this disk meanwhile."""
    bare, clone = folder / "acme" / "flights.git", folder / "clone"
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for command, there in (
        (["init", "-q", "--bare", "-b", "main", str(bare)], None),
        (["clone", "-q", str(bare), str(clone)], None),
        ([*who, "commit", "-q", "--allow-empty", "-m", "first"], clone),
        (["push", "-q", "origin", "HEAD:main"], clone),
    ):
        subprocess.run(["git", *command], cwd=there, check=True, capture_output=True)
    settings = {
        f"url.{bare.parent.as_uri()}/.insteadOf": "https://github.com/acme/",
        "protocol.file.allow": "always",
        "safe.bareRepository": "all",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
        for number, (name, value) in enumerate(settings.items()):
            patch.setenv(f"GIT_CONFIG_KEY_{number}", name)
            patch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
        yield "https://github.com/acme/flights.git"


def call(up: Deployment, workspace: str, method: str, path: str, **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {up.token(workspace)}"}
    return HTTP.request(method, up.host(workspace) + path, headers=headers, **more)


@dataclass
class Described:
    """The description of ops, and what is needed to call what it describes. `more` are arguments that it cannot know."""

    up: Deployment
    schema: Any
    http: requests.Session
    more: dict[str, Json] = field(default_factory=dict)

    @cached_property
    def recipient(self) -> str:
        """A token of met, which reads a share of ops."""
        tokens = call(self.up, "ops", "GET", "/api/2.1/unity-catalog/recipients/met").json()["tokens"]
        return str(HTTP.get(tokens[0]["activation_url"]).json()["bearerToken"])

    @classmethod
    def of(cls, up: Deployment) -> Described:
        import schemathesis

        answer = call(up, "ops", "GET", "/local/openapi.json")
        return cls(up, schemathesis.openapi.from_dict(answer.raise_for_status().json()), requests.Session())

    @property
    def operations(self) -> list[Any]:
        """In the order in which their examples work one after the other, which the paths of OpenAPI do not keep."""
        order = [f"{method} {plain(path)}" for method, path in described()]
        found = [operation.ok() for operation in self.schema.get_all_operations()]
        return sorted(found, key=lambda operation: order.index(operation.label))

    def example(self, operation: Any) -> Any:
        """The case that the description of this moment gives as an example."""
        raw = document(self.up.workspaces["ops"])["paths"][operation.path][operation.method]
        more = self.more.get(f"{operation.method.upper()} {operation.path}", {})
        found: dict[str, Json] = {"path": {}, "query": {}}
        for parameter in raw["parameters"]:
            name = parameter["name"]
            if name in more or "example" in parameter:
                found[parameter["in"]][name] = more.get(name, parameter.get("example"))
        body: Json = {}
        for media_type, content in raw.get("requestBody", {}).get("content", {}).items():
            if "body" in more or "example" in content:
                body = {"body": more.get("body", content.get("example")), "media_type": media_type}
        return operation.Case(path_parameters=found["path"], query=found["query"], **body)

    def is_page(self, operation: Any) -> bool:
        """A page for people, or a button of one."""
        return "pages" in operation.definition.raw["tags"]

    def filled(self, case: Any, known: Any) -> Any:
        """The case with those arguments of the example that say what is meant: names and ids of what is there."""
        case.path_parameters = {**case.path_parameters, **known.path_parameters}
        for given, there in ((case.query, known.query), (case.body, known.body)):
            if isinstance(given, dict) and isinstance(there, dict):
                given.update({name: value for name, value in there.items() if name.endswith(("_id", "name", "path"))})
        return case

    def sent(self, case: Any) -> Any:
        """The answer to the case, which must be one that is declared. Pages are called as by a browser that has signed in."""
        workspace = self.up.workspaces["ops"]
        cookies = {}
        # By the session: a broken case leaves its token out, and would be refused before anything else is looked at.
        self.http.auth = _Bearer(workspace.credentials.token)
        security = case.operation.definition.raw.get("security")
        if security == [{"recipient": []}]:
            self.http.auth = _Bearer(self.recipient)
        elif security == []:
            self.http.auth, cookies = None, {session.cookie_name(workspace): session.begin(workspace)}
        options = {"cookies": cookies, "allow_redirects": False, "session": self.http}
        answer = case.call(base_url=workspace.host, **options)
        case.validate_response(answer, checks=_checks())
        return answer


class _Bearer(AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        r.headers["authorization"] = f"Bearer {self._token}"
        return r


def _checks() -> list[Any]:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    return [not_a_server_error, status_code_conformance, response_schema_conformance]
