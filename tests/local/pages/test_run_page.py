"""The page of a run: what it shows, of which runs, and what it keeps to itself."""

from __future__ import annotations

import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import Notebooks, eventually, failure
from tests.local.pages.pages_kit import TOKEN, Browser, ended, make_job, rest, run_now, signed_in, words


@pytest.fixture(scope="module")
def done(up: Deployment) -> tuple[int, int, int]:
    """Job, run and task run of a run that has ended."""
    parameters = [{"name": name, "default": ""} for name in ("bridge_token", "flights_start")]
    job_id = make_job(up, "delays", parameters=parameters)
    rest(up).call("POST", "/api/2.2/jobs/update", {"job_id": job_id, "new_settings": {"name": "delays <by> weather"}})
    run_id = run_now(rest(up), job_id, job_parameters={"bridge_token": TOKEN, "flights_start": "17"})
    return job_id, run_id, ended(rest(up), run_id)["tasks"][0]["run_id"]


def test_it_shows_the_run_and_leads_to_its_job(ops: Browser, done: tuple[int, int, int]) -> None:
    job_id, run_id, task_run_id = done
    page = ops.page(f"/local/runs/{run_id}")
    for shown in ("delays &lt;by&gt; weather", str(run_id), "SUCCESS", "ONE_TIME", "flights_start", "17", "UTC"):
        assert shown in page
    assert f'href="/local/jobs/{job_id}"' in page
    assert TOKEN[:12] in page
    assert TOKEN not in page
    assert "<by>" not in page
    assert 'http-equiv="refresh"' not in page
    assert ops.page(f"/local/runs/{task_run_id}") == page


def test_a_failed_run_says_why_and_an_active_one_follows_itself(
    up: Deployment, ops: Browser, notebooks: Notebooks
) -> None:
    notebooks.functions["behind"] = lambda request: failure("BridgeReaderBehind: <version> 7 is not there yet")
    failed = run_now(rest(up), make_job(up, "behind"))
    ended(rest(up), failed)
    assert "BridgeReaderBehind: &lt;version&gt; 7 is not there yet" in ops.page(f"/local/runs/{failed}")
    notebooks.block("waits")
    active = run_now(rest(up), make_job(up, "waits"))
    eventually(lambda: "RUNNING" in words(ops.page(f"/local/runs/{active}")))
    assert 'http-equiv="refresh"' in ops.page(f"/local/runs/{active}")
    notebooks.unblock("waits")


def test_a_run_of_another_workspace_is_not_shown(up: Deployment, done: tuple[int, int, int]) -> None:
    met = signed_in(up, "met")
    for run_id in done[1:]:
        assert met.get(f"/local/runs/{run_id}").status_code == 404


def test_pages_follow_the_system_s_colours_and_load_nothing(ops: Browser, done: tuple[int, int, int]) -> None:
    for path in (f"/local/runs/{done[1]}", "/"):
        page = ops.page(path)
        assert "prefers-color-scheme: dark" in page
        assert "://" not in page
        assert " src=" not in page


def test_run_page_url_leads_to_it(up: Deployment, ops: Browser, done: tuple[int, int, int]) -> None:
    run_id = done[1]
    url = rest(up).call("GET", "/api/2.2/jobs/runs/get", run_id=run_id)["run_page_url"]
    address, _, fragment = url.partition("#")
    assert fragment.endswith(f"/run/{run_id}")
    home = ops.get(address.removeprefix(ops.host)).text
    assert "location.hash" in home
    assert '"/local/runs/" + run[1]' in home
    # Who has to sign in first is sent to a page that keeps the part after the #, as browsers do.
    assert '"/local/runs/" + run[1]' in ops.get("/local/sign-in").text
