"""What each page shows of a workspace in which something has happened, and of one in which nothing has."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.runs.records import get_run, put_run
from tests.local.local_kit import Notebooks, eventually
from tests.local.pages.pages_kit import (
    BRONZE,
    TOKEN,
    Browser,
    Sample,
    furnished,
    make_job,
    rest,
    run_now,
    signed_in,
    words,
)

PAGES = ("/", "/local/jobs", "/local/runs", "/local/tables", "/local/files")


@pytest.fixture(scope="module")
def sample(up: Deployment, notebooks: Notebooks) -> Sample:
    return furnished(up, notebooks)


def test_an_empty_workspace_says_what_is_not_there(up: Deployment) -> None:
    met = signed_in(up, "met")
    expected = ("No jobs yet", "There is no job.", "No runs.", "No catalogs yet", "No volumes yet")
    for path, said in zip(PAGES, expected, strict=True):
        assert said in words(met.page(path)), path


def test_the_overview_says_what_this_is_what_ran_and_what_there_is(ops: Browser, sample: Sample) -> None:
    page = ops.page("/")
    said = words(page)
    for expected in (
        "ops, id 1001",
        "Metastore ops",
        "Engine instant",
        "0.005: triggers are looked at about every 0.3 s",
    ):
        assert expected in said, said
    assert re.search(r"bronze-flights SUCCESS file arrival active", said), said
    assert re.search(r"nightly schedule paused never ran", said), said
    assert re.search(r"check-quality FAILED run now alone", said), said
    for path in PAGES[1:]:
        assert f'href="{path}"' in page
    assert re.findall(r'aria-current="page">(\w+)<', page) == ["Overview"]
    assert '"/local/runs/" + run[1]' in page


def test_a_job_that_fired_shows_its_trigger_its_looks_and_its_runs(
    ops: Browser, up: Deployment, sample: Sample
) -> None:
    job_id = sample.jobs["bronze-flights"]
    path = f"/local/jobs/{job_id}"
    eventually(lambda: "did not fire no new files in /Volumes/main/landing/flights/" in words(ops.page(path)))
    said = words(ops.page(path))
    (run,) = rest(up).call("GET", "/api/2.2/jobs/runs/list", job_id=job_id)["runs"]
    assert f"fired 1 new file(s) in /Volumes/main/landing/flights/ {run['run_id']}" in said
    assert "Kind file arrival State active url /Volumes/main/landing/flights/ using_file_events False" in said
    assert f"{run['run_id']} SUCCESS bronze-flights FILE_ARRIVAL" in said
    assert "main notebook /Shared/bronze-flights" in said
    assert '"quartz' not in said


def test_the_memory_of_a_table_update_trigger_is_shown(ops: Browser, sample: Sample) -> None:
    said = words(ops.page(f"/local/jobs/{sample.jobs['silver-flights']}"))
    assert f"last_seen_table_states table_name {BRONZE}, has_seen_updates False" in said, said
    assert f"fired new in {BRONZE}" in said


def test_a_timer_that_holds_a_trigger_is_counted_down_and_the_page_follows_it(ops: Browser, sample: Sample) -> None:
    path = f"/local/jobs/{sample.jobs['partner-files']}"
    eventually(lambda: "Held" in ops.page(path))
    page = ops.page(path)
    held = re.search(r"Held min_time_between_triggers holds: (\d+) min", words(page))
    assert held is not None, words(page)
    assert 1 <= int(held[1]) <= 7  # 86,400 s by the time scale are 7.2 min
    assert 'http-equiv="refresh"' in page


def test_a_trigger_that_cannot_be_evaluated_says_why(ops: Browser, up: Deployment, sample: Sample) -> None:
    job_id = make_job(up, "silver-weather", trigger={"table_update": {"table_names": ["main.silver.flights"]}})
    fault = {"kind": "revoke", "privilege": "SELECT", "securable": "main.silver.flights"}
    fault_id = rest(up).call("POST", "/local/faults", fault)["fault_id"]
    expected = "could not be evaluated PERMISSION_DENIED: User does not have SELECT on Table 'main.silver.flights'"
    eventually(lambda: expected in words(ops.page(f"/local/jobs/{job_id}")))
    rest(up).call("DELETE", f"/local/faults/{fault_id}")


def test_runs_are_listed_filtered_and_paged(ops: Browser, up: Deployment, sample: Sample, notebooks: Notebooks) -> None:
    said = words(ops.page("/local/runs"))
    assert f"{sample.failed} FAILED check-quality ONE_TIME" in said
    assert "bronze-flights" in said
    failed = words(ops.page("/local/runs?state=failed"))
    assert str(sample.failed) in failed
    assert str(sample.gold) not in failed
    assert str(sample.gold) in words(ops.page("/local/runs?state=succeeded"))
    of_job = words(ops.page(f"/local/runs?job={sample.jobs['check-quality']}"))
    assert str(sample.failed) in of_job
    assert str(sample.looped) not in of_job
    assert "No runs." in words(ops.page("/local/runs?state=active"))
    assert "seven is no job id" in words(ops.page("/local/runs?job=seven"))

    store, job_id = up.workspaces["ops"].store, make_job(up, "often")
    one = get_run(store, sample.failed)
    assert one is not None
    with store.transaction():
        many = [replace(one, run_id=store.next_run_id(), job_id=job_id, start_time=n // 2) for n in range(120)]
        made = [put_run(store, run).run_id for run in many]
    path, seen = f"/local/runs?job={job_id}", []
    for _ in range(3):
        page = ops.page(path)
        seen += [int(run) for run in re.findall(r'href="/local/runs/(\d+)"', page)]
        older = re.search(r'href="(/local/runs\?[^"]*older=[^"]*)"', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert seen == made[::-1]
    assert path == ""


def test_a_run_shows_its_iterations(ops: Browser, sample: Sample) -> None:
    said = words(ops.page(f"/local/runs/{sample.looped}"))
    assert "Iterations of airports, attempt 0" in said
    for number, airport in enumerate(("EWR", "JFK", "LGA")):
        assert re.search(rf'{number} "{airport}" SUCCESS 0 \d+', said), said


def test_a_job_s_own_bridge_token_is_cut_short_too(ops: Browser, up: Deployment, sample: Sample) -> None:
    job_id = make_job(up, "with a token", parameters=[{"name": "bridge_token", "default": TOKEN}])
    page = ops.page(f"/local/jobs/{job_id}")
    assert TOKEN[:12] in page
    assert TOKEN not in page


def test_tables_show_their_newest_version_and_shares(ops: Browser, sample: Sample) -> None:
    said = words(ops.page("/local/tables"))
    assert re.search(r"main\.bronze flights 3 table \d{4}-", said), said
    assert "main.audit no tables" in said
    assert "met_share.silver weather 0 shared by met" in said
    assert "met_share reads main of met silver at once with history" in said


def test_a_table_shows_columns_and_history(ops: Browser, sample: Sample) -> None:
    said = words(ops.page(f"/local/tables/{BRONZE}"))
    assert "Newest version 3" in said
    assert "flight string" in said
    assert "delay bigint" in said
    assert re.search(r"3 \d{4}-\S+ \S+ UTC WRITE Append 3 written delta-rs", said), said
    assert re.search(r"0 \d{4}-\S+ \S+ UTC WRITE Append 1 written delta-rs", said), said
    shared = ops.page("/local/tables/met_share.silver.weather")
    assert "is a share from another metastore; it can only be read" in words(shared)
    assert "Commit row" not in shared


def test_volumes_and_their_files_are_shown(ops: Browser, sample: Sample) -> None:
    said = words(ops.page("/local/files"))
    assert "/Volumes/main/landing/flights 1 2" in said
    assert "/Volumes/main/landing/partner 2 2" in said
    assert "Waves" not in said
    page = words(ops.page("/local/files/main/landing/flights"))
    assert re.search(r"flights-2013-01\.json 2\.0 KiB \d{4}-", page), page


def test_an_active_run_makes_its_pages_follow_it(
    ops: Browser, up: Deployment, sample: Sample, notebooks: Notebooks
) -> None:
    notebooks.block("waits")
    job_id = make_job(up, "waits")
    run_id = run_now(rest(up), job_id)
    eventually(lambda: "RUNNING" in words(ops.page(f"/local/runs/{run_id}")))
    live = ("/", "/local/runs", f"/local/runs/{run_id}", f"/local/jobs/{job_id}")
    for path in live:
        assert 'http-equiv="refresh"' in ops.page(path), path
    # The active run is the first of the latest ones, though others were made after it.
    assert re.search(r"Latest runs Run State Job Started by Created Took (\d+)", words(ops.page("/")))[1] == str(run_id)  # type: ignore[index]
    for path in ("/local/tables", f"/local/tables/{BRONZE}", "/local/files/main/landing/flights"):
        assert 'http-equiv="refresh"' not in ops.page(path), path
    notebooks.unblock("waits")
    eventually(lambda: "SUCCESS" in words(ops.page(f"/local/runs/{run_id}")))
    for path in live:
        assert 'http-equiv="refresh"' not in ops.page(path), path


def test_what_has_been_deleted_leaves_pages_that_work(ops: Browser, up: Deployment, sample: Sample) -> None:
    job_id = make_job(up, "short-lived")
    run_id = run_now(rest(up), job_id)
    eventually(lambda: "SUCCESS" in words(ops.page(f"/local/runs/{run_id}")))
    rest(up).call("POST", "/api/2.2/jobs/delete", {"job_id": job_id})
    assert f"{job_id}, which has been deleted" in words(ops.page(f"/local/runs/{run_id}"))
    assert ops.get(f"/local/jobs/{job_id}").status_code == 404
    assert str(run_id) in words(ops.page("/local/runs"))
