"""Who may call, what is served to nobody in particular, and the local-only switches."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import Api, Notebooks, eventually

MakeJob = Callable[..., int]


def get(deployment: Deployment, path: str, token: str | None = None) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{deployment.host('ops')}{path}", headers=headers)


def test_without_a_token_nothing_but_discovery_and_health_is_served(deployment: Deployment) -> None:
    for path in ("/api/2.2/jobs/list", "/local/info", "/local/holds", "/docs", "/api/2.0/preview/scim/v2/Me"):
        answer = get(deployment, path)
        assert answer.status_code == 401
        assert answer.json()["message"].startswith("Credential was not sent")
    assert get(deployment, "/.well-known/databricks-config").json()["workspace_id"] == "1001"
    page = get(deployment, "/local/health")
    assert page.status_code == 200
    assert "not Databricks" in page.text
    assert deployment.token("ops") not in page.text
    assert get(deployment, "/", deployment.token("ops")).status_code == 303


def test_a_wrong_token_and_another_workspace_s_token_are_refused(deployment: Deployment) -> None:
    for token in ("dapiwrong", deployment.token("met")):
        answer = get(deployment, "/api/2.2/jobs/list", token)
        assert answer.status_code == 403
        assert answer.json() == {"error_code": 403, "message": "Invalid access token."}


def test_the_sdk_understands_the_refusal(deployment: Deployment) -> None:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.core import Config
    from databricks.sdk.errors import PermissionDenied

    config = Config(host=deployment.host("ops"), token="dapiwrong", auth_type="pat", retry_timeout_seconds=5)
    with pytest.raises(PermissionDenied, match="Invalid access token"):
        WorkspaceClient(config=config).current_user.me()


def test_a_service_principal_gets_a_token_that_expires(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.core import Config

    credentials = deployment.workspaces["ops"].credentials
    config = Config(
        host=deployment.host("ops"),
        client_id=credentials.client_id,
        client_secret=credentials.client_secret,
        auth_type="oauth-m2m",
        retry_timeout_seconds=5,
    )
    principal = WorkspaceClient(config=config)
    assert principal.current_user.me().user_name == "local-workspace"
    issued = principal.config.authenticate()["Authorization"].removeprefix("Bearer ")
    assert get(deployment, "/api/2.2/jobs/list", issued).status_code == 200
    with deployment.workspaces["ops"].store.transaction() as db:
        db.execute("UPDATE oauth_tokens SET expires_at = 0")
    assert get(deployment, "/api/2.2/jobs/list", issued).status_code == 403
    form = {"grant_type": "client_credentials", "client_id": credentials.client_id, "client_secret": "wrong"}
    refused = httpx.post(f"{deployment.host('ops')}/oidc/v1/token", data=form)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


def test_an_unknown_route_says_so(deployment: Deployment) -> None:
    answer = get(deployment, "/api/2.0/pipelines/x", deployment.token("ops"))
    assert answer.status_code == 404
    assert answer.json() == {
        "error_code": "ENDPOINT_NOT_FOUND",
        "message": "No API found for 'GET /api/2.0/pipelines/x': the local workspace, which is not Databricks, does not "
        "serve pipelines.",
    }
    answer = get(deployment, "/favicon.ico", deployment.token("ops"))
    assert (answer.status_code, answer.json()["error_code"]) == (404, "ENDPOINT_NOT_FOUND")


def test_a_body_that_is_not_json_is_refused(deployment: Deployment) -> None:
    headers = {"Authorization": f"Bearer {deployment.token('ops')}"}
    answer = httpx.post(f"{deployment.host('ops')}/api/2.2/jobs/create", content=b"{", headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "MALFORMED_REQUEST")


def test_every_answer_names_its_workspace_and_says_that_it_is_local(deployment: Deployment, ops: Any) -> None:
    assert ops.get_workspace_id() == 1001
    assert "not Databricks" in get(deployment, "/api/2.2/jobs/list").headers["x-databricks-bridge"]


def test_a_run_s_page_is_a_page_here(deployment: Deployment, api: Api, make_job: MakeJob) -> None:
    run = api.ended(api.post("run-now", job_id=make_job())["run_id"])
    assert re.fullmatch(rf"{deployment.host('ops')}/\?o=1001#job/\d+/run/{run['run_id']}", run["run_page_url"])
    home = httpx.get(run["run_page_url"])
    assert (home.status_code, home.headers["location"]) == (303, "/local/sign-in?next=%2F%3Fo%3D1001")


def test_secrets_are_in_no_representation(deployment: Deployment) -> None:
    credentials = deployment.workspaces["ops"].credentials
    shown = repr(deployment)
    assert credentials.token not in shown
    assert credentials.client_secret not in shown


def test_info(deployment: Deployment) -> None:
    info = get(deployment, "/local/info", deployment.token("ops")).json()
    expected = {
        "workspace": "ops",
        "workspace_id": "1001",
        "metastore": "ops",
        "time_scale": 1.0,
        "engine": "instant",
    }
    assert expected.items() <= info.items()


def hold(ops: Any, at: str, job_name: str = "job") -> int:
    answer = ops.api_client.do("POST", "/local/holds", body={"job_name": job_name, "at": at})
    return int(answer["hold_id"])


def holds(ops: Any) -> dict[int, dict[str, Any]]:
    return {item["hold_id"]: item for item in ops.api_client.do("GET", "/local/holds")["holds"]}


def test_a_run_held_after_its_start_has_not_run_its_notebook(
    ops: Any, api: Api, notebooks: Notebooks, make_job: MakeJob
) -> None:
    job_id, hold_id = make_job(), hold(ops, "after_start")
    assert holds(ops)[hold_id] == {
        "hold_id": hold_id,
        "job_name": "job",
        "at": "after_start",
        "state": "armed",
        "run_id": None,
    }
    run_id = api.post("run-now", job_id=job_id)["run_id"]
    eventually(lambda: holds(ops)[hold_id]["state"] == "holding")
    assert holds(ops)[hold_id]["run_id"] == run_id
    assert api.run(run_id)["state"]["life_cycle_state"] == "RUNNING"
    assert notebooks.seen == []
    ops.api_client.do("DELETE", f"/local/holds/{hold_id}")
    assert api.ended(run_id)["state"]["result_state"] == "SUCCESS"
    assert holds(ops)[hold_id]["state"] == "released"


def test_a_run_held_after_its_notebook_has_written_and_not_ended(
    ops: Any, api: Api, notebooks: Notebooks, make_job: MakeJob
) -> None:
    job_id, hold_id = make_job(), hold(ops, "after_notebook")
    run_id = api.post("run-now", job_id=job_id)["run_id"]
    eventually(lambda: holds(ops)[hold_id]["state"] == "holding")
    assert len(notebooks.seen) == 1
    assert api.run(run_id)["state"]["life_cycle_state"] == "RUNNING"
    api.post("runs/cancel", run_id=run_id)
    assert api.ended(run_id)["state"]["result_state"] == "CANCELED"
    assert holds(ops)[hold_id]["state"] == "released"


def test_a_hold_is_for_the_next_run_of_its_job_alone(
    ops: Any, api: Api, notebooks: Notebooks, make_job: MakeJob
) -> None:
    job_id, other = make_job(max_concurrent_runs=9), make_job(name="other")
    notebooks.block("main")
    before = api.running(api.post("run-now", job_id=job_id)["run_id"])["run_id"]
    hold_id = hold(ops, "after_notebook")
    held = api.running(api.post("run-now", job_id=job_id)["run_id"])["run_id"]
    after = api.running(api.post("run-now", job_id=job_id)["run_id"])["run_id"]
    elsewhere = api.running(api.post("run-now", job_id=other)["run_id"])["run_id"]
    notebooks.unblock("main")
    for run_id in (before, after, elsewhere):
        assert api.ended(run_id)["state"]["result_state"] == "SUCCESS"
    assert holds(ops)[hold_id]["run_id"] == held
    assert api.run(held)["state"]["life_cycle_state"] == "RUNNING"


def test_holds_that_are_refused(ops: Any) -> None:
    from databricks.sdk.errors import BadRequest, NotFound

    with pytest.raises(BadRequest, match="after_start, after_notebook"):
        hold(ops, "sometime")
    with pytest.raises(NotFound, match="Hold 99 does not exist"):
        ops.api_client.do("DELETE", "/local/holds/99")
