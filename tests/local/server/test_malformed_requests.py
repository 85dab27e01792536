"""No request, however malformed, is answered 500, and none does harm to what it does not name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.server.app import create_app
from tests.local.local_kit import Api, Notebooks, client, write_notebook

REQUESTS = 1000
FIELDS = """
active_only at branch byte_limit catalog catalog_name changes client_id client_secret cluster_id comment
completed_only content continuous count disposition email_notifications expand_tasks fields_to_remove force
format grant_type idempotency_token include_delta_metadata include_history include_resolved_values
include_trigger_state instance_pool_id job_id job_name job_parameters kind language latest_repair_id limit
max_concurrent_runs max_results name new_settings notebook_params offset on_wait_timeout only operation
overwrite page_size page_token parameters path policy_id principal privilege properties protocol-versions
provider queue recursive rerun_all_failed_tasks rerun_tasks row_limit run_id run_type schedule schema
schema_name seconds securable settings start_time_from start_time_to statement table_id tag task_run_id tasks
timeout_seconds trigger url volume_id volume_type wait_timeout warehouse_id
""".split()  # noqa: SIM905 - a list of a hundred quoted words is not to be read
NASTY_TEXT = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            ".",
            "..",
            "../../../etc/passwd",
            "a" * 300,
            "a/" * 200,
            "main",
            "main.s.t",
            "main.s.broken",
            "/Shared/main",
            "/Volumes/main/s/v/x",
            "Volumes/main/s/v",
            "\x00",
            "%00",
            "{{job.id}}",
            "NaN",
            "-1",
            "99999999999999999999",
            "true",
            "PAUSED",
            "0 0 0 0 0 ?",
        ]
    ),
    st.text(max_size=20),
)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0, -1])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | NASTY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | NASTY_TEXT, inner, max_size=4)
    ),
    max_leaves=8,
)
TASK = {"task_key": "main", "notebook_task": {"notebook_path": "/Shared/main"}}
FILLED = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5)
BODIES = st.one_of(
    st.just(b""),
    st.just(b""),
    FILLED.map(lambda body: json.dumps(body).encode()),
    FILLED.map(lambda body: json.dumps({"name": "n", "tasks": [TASK], **body}).encode()),
    FILLED.map(lambda body: json.dumps({"tasks": [{**TASK, **body}], "name": "n"}).encode()),
    st.binary(max_size=60),
    st.sampled_from([b"{", b"[]", b"null", b'"x"', b'{"a": NaN}', b'{"job_id": 1e999}', b'{"name": "\\ud800"}']),
    st.sampled_from([b"[" * 100_000, b'{"a":' * 5_000, b"\xff\xfe{"]),
)
HEADERS = st.sampled_from(
    [
        {},
        {"content-type": "application/json"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "multipart/form-data"},
        {"content-type": "\xff"},
        {"range": "bytes=9-1"},
        {"range": "bytes=nothing"},
        {"if-none-match": "*"},
    ]
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    from databricks.sdk.service.catalog import VolumeType

    home: Path = tmp_path_factory.mktemp("malformed") / "home"
    with deployment_in_thread(home, ["ops", "met"], engine=InstantEngine(Notebooks().run)) as deployment:
        for workspace in ("ops", "met"):
            sdk = client(deployment, workspace)
            sdk.catalogs.create("main")
            sdk.schemas.create("s", "main")
            sdk.volumes.create("main", "s", "v", VolumeType.MANAGED)
            log = deployment.layout.metastore_root(workspace) / "main" / "s" / "broken" / "_delta_log"
            log.mkdir(parents=True)
            (log / "00000000000000000000.json").write_text("not a log\n")
            write_notebook(deployment, workspace, "main")
        yield deployment


def routes(deployment: Deployment) -> list[tuple[str, str]]:
    app = create_app(deployment.workspaces["ops"])
    found = {(method, path) for route in app.routes for path, method in paths_of(route)}
    assert len(found) > 80, found
    return sorted(found)


def paths_of(route: Any) -> list[tuple[str, str]]:
    inner = getattr(getattr(route, "original_router", route), "routes", None)
    if inner is not None:
        return [found for one in inner for found in paths_of(one)]
    return [(route.path, method) for method in route.methods]


def test_no_malformed_request_is_answered_500(up: Deployment) -> None:
    kept = Api(client(up, "met"))
    job_id = kept.post("create", name="kept", tasks=[TASK])["job_id"]
    before = kept.get("get", job_id=job_id)
    served = routes(up)
    token = {b"authorization": f"Bearer {up.token('ops')}".encode()}
    answered: dict[int, int] = {}

    with httpx.Client(base_url=up.host("ops"), timeout=20) as http:

        @settings(
            max_examples=REQUESTS,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.sampled_from(served), st.data())
        def sent(route: tuple[str, str], data: st.DataObject) -> None:
            method, template = route
            path = re.sub(r"\{[^}]*\}", lambda match: quote(data.draw(NASTY_TEXT), safe="/"), template)
            query = data.draw(st.dictionaries(st.sampled_from(FIELDS), NASTY_TEXT | NUMBERS.map(str), max_size=3))
            sent_headers = {
                name.encode(): value.encode("latin-1") for name, value in data.draw(HEADERS).items()
            } | token
            address = f"{path}?{urlencode(query, errors='replace')}"
            answer = http.request(method, address, content=data.draw(BODIES), headers=sent_headers)
            answered[answer.status_code] = answered.get(answer.status_code, 0) + 1
            assert answer.status_code not in (500, 502), (method, path, answer.text)

        sent()
    assert {200, 400, 404} <= answered.keys(), answered
    assert kept.get("get", job_id=job_id) == before
    assert client(up, "ops").current_user.me().user_name == "local-workspace"


FORM = {"content-type": "multipart/form-data; boundary=x"}
PINNED: list[tuple[int, str, str, dict[str, Any]]] = [
    (400, "GET", "/api/2.1/unity-catalog/tables/main.s." + "a" * 300, {}),
    (400, "POST", "/api/2.1/unity-catalog/catalogs", {"json": {"name": "a" * 300}}),
    (400, "GET", "/api/2.0/fs/files/Volumes/main/s/v/%00", {}),
    (400, "PUT", "/api/2.0/fs/files/Volumes/main/s/v/" + "a" * 300, {"content": b"x"}),
    (400, "PUT", "/api/2.0/fs/files/Volumes/main/s/v/" + "a/" * 2000, {"content": b"x"}),
    (400, "GET", "/api/2.0/fs/directories/Volumes/main/s/v?page_size=-5", {}),
    (400, "POST", "/api/2.0/workspace/mkdirs", {"json": {"path": "/" + "a" * 300}}),
    (400, "POST", "/api/2.0/workspace/mkdirs", {"json": {"path": "/" + "a/" * 2000}}),
    (400, "POST", "/api/2.0/workspace/import", {"json": {"path": "/x", "format": "AUTO", "content": "\u00e9"}}),
    (400, "POST", "/api/2.0/workspace/import", {"headers": FORM, "content": b'--x\r\nContent-Disposition: form-data; name="path"\r\n\r\n\xff\r\n--x--'}),
    (400, "POST", "/api/2.0/workspace/import", {"headers": {"content-type": "multipart/form-data"}, "content": b"x"}),
    (400, "POST", "/oidc/v1/token", {"content": b"\xff\xfe"}),
    (400, "DELETE", "/local/holds/99999999999999999999999", {}),
    (400, "POST", "/api/2.2/jobs/create", {"content": b'{"name": "\\ud800"}'}),
    (400, "POST", "/api/2.2/jobs/create", {"content": b"[" * 100_000}),
    (404, "GET", "/api/2.2/jobs/list/", {}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "method", "path", "more"), PINNED)
def test_requests_that_were_answered_500_once(
    up: Deployment, status: int, method: str, path: str, more: dict[str, Any]
) -> None:
    headers = {"authorization": f"Bearer {up.token('ops')}", **more.pop("headers", {})}
    answer = httpx.request(method, up.host("ops") + path, headers=headers, **more)
    assert answer.status_code == status, answer.text
    assert {"error_code", "error"} & answer.json().keys()


def test_a_table_whose_log_cannot_be_read_is_there_without_its_columns(up: Deployment) -> None:
    """Unity Catalog does not read logs: the table is listed, whatever has become of its files.

    In the workspace that no malformed request is sent to: one of them may drop the table.
    """
    tables = client(up, "met").tables
    broken = tables.get("main.s.broken")
    assert (broken.full_name, broken.data_source_format.value, broken.columns) == ("main.s.broken", "DELTA", [])
    assert [table.table_id for table in tables.list("main", "s")] == [broken.table_id]
