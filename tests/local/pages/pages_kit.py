"""What the tests of the pages share: a browser without a screen, and a workspace in which something has happened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from tests.local.local_kit import OK, Notebooks, eventually, failure, write_notebook

TOKEN = "0123456789abcdef" * 4
LANDING = "/Volumes/main/landing/flights/"
BRONZE = "main.bronze.flights"


@dataclass
class Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    label: str = ""


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._open = self._in_button = False

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(Form(given.get("action", ""), given.get("method", "get")))
            self._open = True
        elif self._open and tag in ("input", "textarea") and given.get("type") not in ("checkbox", "file"):
            self.found[-1].fields[given["name"]] = given.get("value", "")
        elif tag == "button":
            self._in_button = True

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "form"
        self._in_button = self._in_button and tag != "button"

    def handle_data(self, data: str) -> None:
        if self._in_button and self.found:
            self.found[-1].label += data


def forms(page: str) -> list[Form]:
    parser = _Forms()
    parser.feed(page)
    return parser.found


def words(page: str) -> str:
    """What a person reads of a page."""
    bare = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", bare)).split())


@dataclass(frozen=True)
class Browser:
    """Follows links and sends forms of one workspace as a browser does, with the origin of its pages."""

    http: httpx.Client
    host: str

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.http.get(path, **more)

    def page(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, (path, answer.status_code, words(answer.text))
        assert "local stand-in, not Databricks" in answer.text
        return answer.text

    def post(self, path: str, data: Mapping[str, str], **more: Any) -> httpx.Response:
        headers = {"origin": self.host, **more.pop("headers", {})}
        return self.http.post(path, data=dict(data), headers=headers, **more)

    def form(self, path: str, label: str) -> Form:
        """The form of that page whose button says `label`."""
        found = [form for form in forms(self.page(path)) if form.label == label]
        assert found, f"{path} has no button {label}"
        return found[0]

    def press(self, path: str, label: str, files: Any = None, **fields: str) -> httpx.Response:
        """Open a page, fill in the form of a button, and press it."""
        form = self.form(path, label)
        return self.post(form.action, {**form.fields, **fields}, files=files)


def browser(deployment: Deployment, workspace: str = "ops") -> Browser:
    """One that nobody has signed in."""
    host = deployment.host(workspace)
    return Browser(httpx.Client(base_url=host, timeout=20, verify=False), host)


def link(deployment: Deployment, workspace: str = "ops", **body: str) -> str:
    """A sign-in link, as `local links` prints it."""
    return str(rest(deployment, workspace).call("POST", "/local/sign-in-links", body)["url"])


def signed_in(deployment: Deployment, workspace: str = "ops") -> Browser:
    opened = browser(deployment, workspace)
    assert opened.get(link(deployment, workspace)).status_code == 303
    return opened


@dataclass(frozen=True)
class Api:
    """Calls of the REST API over one connection."""

    http: httpx.Client

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any) -> dict[str, Any]:
        answer = self.http.request(method, path, json=None if body is None else dict(body), params=query)
        assert answer.status_code == 200, (path, answer.text)
        return dict(answer.json())


_APIS: dict[str, Api] = {}


def rest(deployment: Deployment, workspace: str = "ops") -> Api:
    """The API of a workspace, for who has its token."""
    host = deployment.host(workspace)
    if host not in _APIS:
        headers = {"authorization": f"Bearer {deployment.token(workspace)}"}
        _APIS[host] = Api(httpx.Client(base_url=host, timeout=20, headers=headers, verify=False))
    return _APIS[host]


def make_schemas(api: Api, *schemas: str) -> None:
    api.call("POST", "/api/2.1/unity-catalog/catalogs", {"name": "main"})
    for schema in schemas:
        api.call("POST", "/api/2.1/unity-catalog/schemas", {"catalog_name": "main", "name": schema})


def make_volume(api: Api, schema: str, name: str) -> None:
    body = {"catalog_name": "main", "schema_name": schema, "name": name, "volume_type": "MANAGED"}
    api.call("POST", "/api/2.1/unity-catalog/volumes", body)


def make_table(deployment: Deployment, name: str, rows: list[dict[str, Any]], workspace: str = "ops") -> Path:
    """A Delta table of these rows."""
    import pyarrow as pa
    from deltalake import write_deltalake

    hosted = deployment.workspaces[workspace]
    table = hosted.layout.table_path(hosted.metastore, name)
    write_deltalake(str(table), pa.Table.from_pylist(rows), mode="append")
    return table


def rows_of(table: Path) -> list[dict[str, Any]]:
    """All rows of a table, in no order."""
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

    files = DeltaTable(str(table)).file_uris()
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def make_job(deployment: Deployment, name: str, workspace: str = "ops", **settings: Any) -> int:
    """A job whose one task runs a notebook of the job's name."""
    task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(deployment, workspace, name)}}
    body = {"name": name, "tasks": [task], **settings}
    return int(rest(deployment, workspace).call("POST", "/api/2.2/jobs/create", body)["job_id"])


def run_now(api: Api, job_id: int, **more: Any) -> int:
    return int(api.call("POST", "/api/2.2/jobs/run-now", {"job_id": job_id, **more})["run_id"])


def runs_of(api: Api, job_id: int) -> list[dict[str, Any]]:
    return list(api.call("GET", "/api/2.2/jobs/runs/list", job_id=job_id).get("runs", []))


def ended(api: Api, run_id: int) -> dict[str, Any]:
    def look() -> dict[str, Any]:
        return dict(api.call("GET", "/api/2.2/jobs/runs/get", run_id=run_id))

    eventually(lambda: look()["status"]["state"] == "TERMINATED")
    return look()


FLIGHTS = [
    {"flight": "UA1545", "origin": "EWR", "delay": 2},
    {"flight": "AA1141", "origin": "JFK", "delay": -1},
    {"flight": "DL461", "origin": "LGA", "delay": 14},
]


def appends(deployment: Callable[[], Deployment]) -> Callable[[NotebookRun], NotebookResult]:
    """A notebook that writes flights into the bronze table."""

    def run(request: NotebookRun) -> NotebookResult:
        make_table(deployment(), BRONZE, FLIGHTS)
        return OK

    return run


@dataclass(frozen=True)
class Sample:
    """Ids of what has happened in `furnished`."""

    jobs: Mapping[str, int]
    failed: int
    looped: int
    gold: int


def furnished(deployment: Deployment, notebooks: Notebooks) -> Sample:
    """ops as a demo leaves it: files that arrived, jobs that fired and jobs that did not, tables with versions, a share."""
    api = rest(deployment)
    make_schemas(api, "landing", "bronze", "silver", "audit")
    make_volume(api, "landing", "flights")
    make_volume(api, "landing", "partner")
    for rows in (FLIGHTS[:1], FLIGHTS[1:], FLIGHTS[:2]):
        make_table(deployment, BRONZE, rows)
    make_table(deployment, "main.silver.flights", FLIGHTS[:2])
    notebooks.functions["bronze-flights"] = appends(lambda: deployment)
    notebooks.functions["check-quality"] = lambda run: failure("ValueError: 3 flights have no origin")
    jobs = {
        "bronze-flights": make_job(deployment, "bronze-flights", trigger={"file_arrival": {"url": LANDING}}),
        "silver-flights": make_job(
            deployment,
            "silver-flights",
            trigger={"table_update": {"table_names": [BRONZE], "condition": "ANY_UPDATED"}},
        ),
        "partner-files": make_job(
            deployment,
            "partner-files",
            trigger={
                "file_arrival": {"url": "/Volumes/main/landing/partner/", "min_time_between_triggers_seconds": 86400}
            },
        ),
        "nightly": make_job(
            deployment,
            "nightly",
            schedule={
                "quartz_cron_expression": "0 30 2 * * ?",
                "timezone_id": "Europe/Berlin",
                "pause_status": "PAUSED",
            },
        ),
        "check-quality": make_job(deployment, "check-quality"),
        "each-airport": _loop(deployment, api),
        "delays-by-weather": make_job(
            deployment,
            "delays-by-weather",
            parameters=[{"name": name, "default": ""} for name in ("bridge_token", "flights_start", "flights_end")],
        ),
    }
    met = rest(deployment, "met")
    make_schemas(met, "silver")
    make_table(deployment, "main.silver.weather", [{"station": "EWR", "wind": 12.5}], "met")
    share = {"catalog": "met_share", "source_metastore": "met", "source_catalog": "main", "schemas": ["silver"]}
    api.call("POST", "/local/shares", share)
    for path in (LANDING, "/Volumes/main/landing/partner/"):
        land(deployment, f"{path}flights-2013-01.json", b'{"flight": "UA1545", "origin": "EWR", "delay": 2}\n' * 40)
    eventually(lambda: runs_of(api, jobs["silver-flights"]) and runs_of(api, jobs["partner-files"]))
    land(deployment, "/Volumes/main/landing/partner/flights-2013-02.json", b"{}\n" * 9)
    given = {"bridge_token": TOKEN, "flights_start": "1", "flights_end": "2"}
    sample = Sample(
        jobs,
        run_now(api, jobs["check-quality"]),
        run_now(api, jobs["each-airport"]),
        run_now(api, jobs["delays-by-weather"], job_parameters=given),
    )
    for run_id in (sample.failed, sample.looped, sample.gold):
        ended(api, run_id)
    return sample


def _loop(deployment: Deployment, api: Api) -> int:
    inner = {"task_key": "one", "notebook_task": {"notebook_path": write_notebook(deployment, "ops", "one-airport")}}
    loop = {"inputs": '["EWR", "JFK", "LGA"]', "concurrency": 2, "task": inner}
    task = {"task_key": "airports", "for_each_task": loop}
    body = {"name": "each-airport", "tasks": [task]}
    return int(api.call("POST", "/api/2.2/jobs/create", body)["job_id"])


def land(deployment: Deployment, path: str, content: bytes, workspace: str = "ops") -> None:
    """A file arrives, whole."""
    hosted = deployment.workspaces[workspace]
    file = hosted.layout.volume_path(hosted.metastore, path)
    hidden = file.with_name(f".{file.name}")
    hidden.write_bytes(content)
    hidden.rename(file)
