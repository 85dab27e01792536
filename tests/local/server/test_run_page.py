"""The page of a run: what it shows, to whom, and what it keeps to itself."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import Api, Notebooks, failure

MakeJob = Callable[..., int]
TOKEN = "0123456789abcdef" * 4


def page(deployment: Deployment, run_id: int | str, workspace: str = "ops", **headers: str) -> httpx.Response:
    return httpx.get(f"{deployment.host(workspace)}/local/runs/{run_id}", headers=headers)


def test_it_shows_the_run_without_a_token(deployment: Deployment, api: Api, make_job: MakeJob) -> None:
    parameters = [{"name": name, "default": ""} for name in ("bridge_token", "flights_start")]
    job_id = make_job(name="delays <by> weather", parameters=parameters)
    given = {"bridge_token": TOKEN, "flights_start": "17"}
    run_id = api.post("run-now", job_id=job_id, job_parameters=given)["run_id"]
    done = api.ended(run_id)
    answer = page(deployment, run_id)
    assert answer.status_code == 200
    for shown in ("delays &lt;by&gt; weather", str(run_id), str(job_id), "SUCCESS", "ONE_TIME", "flights_start", "17"):
        assert shown in answer.text
    assert "UTC" in answer.text
    assert "local stand-in, not Databricks" in answer.text
    assert TOKEN[:12] in answer.text
    assert TOKEN not in answer.text
    assert "<by>" not in answer.text
    assert 'http-equiv="refresh"' not in answer.text
    assert page(deployment, done["tasks"][0]["run_id"]).text == answer.text


def test_a_failed_run_says_why_and_an_active_one_follows_itself(
    deployment: Deployment, api: Api, make_job: MakeJob, notebooks: Notebooks
) -> None:
    notebooks.functions["main"] = lambda request: failure("BridgeReaderBehind: <version> 7 is not there yet")
    failed = api.post("run-now", job_id=make_job())["run_id"]
    api.ended(failed)
    assert "BridgeReaderBehind: &lt;version&gt; 7 is not there yet" in page(deployment, failed).text
    notebooks.block("waits")
    active = api.post("run-now", job_id=make_job({"waits": {}}))["run_id"]
    api.running(active)
    text = page(deployment, active).text
    assert "RUNNING" in text
    assert 'http-equiv="refresh"' in text
    notebooks.unblock("waits")


def test_no_credential_is_on_it(deployment: Deployment, api: Api, make_job: MakeJob) -> None:
    credentials = deployment.workspaces["ops"].credentials
    job_id = make_job(name=f"job {credentials.token}", parameters=[{"name": "secret", "default": ""}])
    given = {"secret": credentials.client_secret}
    run_id = api.post("run-now", job_id=job_id, job_parameters=given)["run_id"]
    text = page(deployment, run_id).text
    assert credentials.token not in text
    assert credentials.client_secret not in text
    assert text.count("(hidden)") >= 2


def test_a_name_that_leads_here_is_not_enough(deployment: Deployment, api: Api, make_job: MakeJob) -> None:
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    assert page(deployment, run_id, host="attacker.example").status_code == 403
    assert page(deployment, run_id, host="localhost:80").status_code == 200


@pytest.mark.parametrize("run_id", [1, 0, -1, 2**70])
def test_a_run_that_is_not_there_is_a_404(deployment: Deployment, run_id: int) -> None:
    answer = page(deployment, run_id)
    assert answer.status_code == 404
    assert "not Databricks" in answer.text


def test_a_run_of_another_workspace_is_a_404(deployment: Deployment, api: Api, make_job: MakeJob) -> None:
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    task_run_id = api.ended(run_id)["tasks"][0]["run_id"]
    assert page(deployment, run_id, "met").status_code == 404
    assert page(deployment, task_run_id, "met").status_code == 404


def test_it_follows_the_system_s_colours_and_loads_nothing(deployment: Deployment, api: Api, make_job: MakeJob) -> None:
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    for answer in (page(deployment, run_id), httpx.get(deployment.host("ops"))):
        assert "prefers-color-scheme: dark" in answer.text
        assert "://" not in answer.text
        assert " src=" not in answer.text
    assert page(deployment, run_id).headers["content-security-policy"].startswith("default-src 'none'")


def test_run_page_url_leads_to_it(deployment: Deployment, api: Api, make_job: MakeJob) -> None:
    run_id = api.post("run-now", job_id=make_job())["run_id"]
    address, _, fragment = api.run(run_id)["run_page_url"].partition("#")
    assert fragment.endswith(f"/run/{run_id}")
    home = httpx.get(address).text
    assert "location.hash" in home
    assert '"/local/runs/" + run[1]' in home
