"""Whatever is asked, in whatever state, is answered with a page; and nothing that others named is HTML in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.pages import site
from databricks_bridge.local.pages.parts import duration, size
from tests.local.local_kit import Notebooks, failure
from tests.local.pages.pages_kit import (
    FLIGHTS,
    LANDING,
    TOKEN,
    Browser,
    ended,
    land,
    make_job,
    make_schemas,
    make_table,
    make_volume,
    rest,
    run_now,
    words,
)

EVIL = "<script>alert('x')</script>\"'&"
BROKEN = {
    "empty": b"",
    "nonsense": b"not a log\n",
    "cut": b'{"commitInfo": {"oper',
    "list": b"[1]\n",
    "no_schema": b'{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}\n',
    "bytes": b"\xff\xfe\x00\n",
    "newer": b'{"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}\n',
    "bad_schema": b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n{"metaData":{"id":"x","format":'
    b'{"provider":"parquet","options":{}},"schemaString":"{","partitionColumns":[],"configuration":{}}}\n',
}
ODD = (
    st.sampled_from(
        ["1", "7", "99999999999999999999", "9223372036854775807", "9223372036854775808", "1.5", "x", "\u0661"]
    )
    | st.sampled_from(
        ["", "0", "-1", "..", "../../x", "main", "main.s.broken_cut", "a" * 300, "a/" * 150, "\x00", EVIL]
    )
    | st.sampled_from(["active", "failed", "1-1", "9223372036854775807-9223372036854775807", "-", "%00", "NaN", " "])
    | st.text(max_size=12)
)
THERE = {
    "job_id": "100000000001",
    "run_id": "500000000001",
    "name": "main.s.t",
    "path:path": "main/s/v",
    "rest:path": "x",
}
"""What the parts of an address would have to be: the first job and run, a table, a volume."""
QUERY = ("page", "name", "job", "state", "older", "before", "after", "committed", "dropped", "landed", "next", "code")
FIELDS = ("trigger", "name", "text", "json", "overwrite", "0", "1", "2", "next", "token")


def filled(name: str, data: st.DataObject) -> str:
    return THERE[name] if data.draw(st.booleans()) else data.draw(ODD)


@pytest.fixture(scope="module", autouse=True)
def something(up: Deployment) -> None:
    make_schemas(rest(up), "landing", "s")
    make_volume(rest(up), "landing", "flights")
    make_volume(rest(up), "s", "v")
    make_table(up, "main.s.t", FLIGHTS)
    schema = up.layout.metastore_root("ops") / "main" / "s"
    for name, content in BROKEN.items():
        log = schema / f"broken_{name}" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020}.json").write_bytes(content)
    (schema / "broken_view.view.json").write_text('{"query": 7')
    (schema / "odd_view.view.json").write_text("[]")
    run_now(rest(up), make_job(up, "first"))


def test_no_page_and_no_form_is_answered_500(up: Deployment, ops: Browser) -> None:
    form_value = ops.form("/", "Sign out").fields["form_value"]
    # Signing out would end the test; what it does has a test of its own.
    routes = [("GET", path) for path in (*site.PAGES, "/local/sign-in")] + [("POST", path) for path in site.ACTIONS]
    answered: dict[int, int] = {}

    @settings(max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(routes), st.data())
    def asked(route: tuple[str, str], data: st.DataObject) -> None:
        method, template = route
        path = re.sub(r"\{([^}]*)\}", lambda part: quote(filled(part[1], data), safe="/"), template)
        query = data.draw(st.dictionaries(st.sampled_from(QUERY), ODD, max_size=3))
        if method == "GET":
            answer = ops.get(path, params=query)
        else:
            fields = data.draw(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4))
            answer = ops.post(path, {**fields, "form_value": form_value}, params=query)
        answered[answer.status_code] = answered.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, (method, path, query, answer.text)

    asked()
    assert {200, 303, 400, 404} <= answered.keys(), answered


@pytest.mark.parametrize("path", ["/local/jobs/{}", "/local/runs/{}", "/local/jobs/{}/x", "/local/runs/{}/x"])
@pytest.mark.parametrize("odd", ["0", "-1", "1", "9223372036854775808", "1e3", "%C2%B2", "%00", "a" * 300])
def test_what_is_not_there_is_a_page_that_says_so(ops: Browser, path: str, odd: str) -> None:
    answer = ops.get(path.format(odd))
    assert answer.status_code == 404
    assert "Not found" in words(answer.text)
    assert "not Databricks" in answer.text


@pytest.mark.parametrize("name", BROKEN)
def test_a_table_whose_log_cannot_be_read_is_shown_without_its_columns(up: Deployment, ops: Browser, name: str) -> None:
    answer = ops.get(f"/local/tables/main.s.broken_{name}")
    assert answer.status_code in (200, 404), words(answer.text)
    assert f"broken_{name}" in words(ops.page("/local/tables"))
    if answer.status_code == 200:
        assert "its Delta log cannot be read" in words(answer.text)
        assert "Commit row" not in answer.text


@pytest.mark.parametrize("name", ["broken_view", "odd_view"])
def test_a_view_that_cannot_be_read_says_so(ops: Browser, name: str) -> None:
    answer = ops.get(f"/local/tables/main.s.{name}")
    assert answer.status_code == 400
    assert f"The definition of the view main.s.{name} cannot be read" in words(answer.text)
    assert name in words(ops.page("/local/tables"))


def test_a_thousand_jobs_are_paged(up: Deployment) -> None:
    from tests.local.pages.pages_kit import signed_in

    met, workspace = signed_in(up, "met"), up.workspaces["met"]
    with workspace.store.transaction():
        for number in range(1000):
            workspace.store.add_job("met", {"name": f"job {number:04}", "tasks": []}, 0)
    said = words(met.page("/"))
    assert "job 0999" in said
    assert "All 1,000 jobs" in said
    assert said.count("never ran") == 20
    first, last = words(met.page("/local/jobs")), words(met.page("/local/jobs?page=99"))
    assert (first.count("never ran"), last.count("never ran")) == (50, 50)
    assert "Page 1 of 20 · Next" in first
    assert "Page 20 of 20 · Before" in last
    assert "job 0000" in last
    found = words(met.page("/local/jobs?name=JOB 012"))
    assert found.count("never ran") == 10
    no_tasks = met.press(re.findall(r'href="(/local/jobs/\d+)"', met.page("/local/jobs"))[0], "Run now")
    assert (no_tasks.status_code, "has no tasks to run" in words(no_tasks.text)) == (400, True)


def test_names_and_texts_of_others_are_text(up: Deployment, ops: Browser, notebooks: Notebooks) -> None:
    notebooks.functions["evil"] = lambda run: failure(f"ValueError: {EVIL}")
    parameters = [{"name": "evil", "default": EVIL}]
    job_id = make_job(up, "evil", parameters=parameters, tags={"evil": EVIL})
    rest(up).call("POST", "/api/2.2/jobs/update", {"job_id": job_id, "new_settings": {"name": EVIL}})
    run_id = run_now(rest(up), job_id, job_parameters={EVIL: EVIL})
    ended(rest(up), run_id)
    land(up, f"{LANDING}{EVIL.replace('/', '')}", b"")
    column = {"<b>column</b>": 1}
    make_table(up, "main.s.<i>evil", [column])
    volume = "/local/files/main/landing/flights"
    pages = [
        *("/", "/local/jobs", "/local/runs", "/local/tables", "/local/files", volume),
        *(f"/local/jobs/{job_id}", f"/local/runs/{run_id}", "/local/tables/main.s.%3Ci%3Eevil"),
        f"/local/jobs?name={quote(EVIL)}",
        f"/local/runs?job={quote(EVIL)}&state={quote(EVIL)}",
        f"{volume}?after=&dropped={quote(EVIL.replace('/', ''))}",
    ]
    for path in pages:
        page = ops.page(path)
        for raw in ("<script>alert", "<b>column", "<i>evil", "\"'&"):
            assert raw not in page, path
    for path in pages[:3]:
        assert "&lt;script&gt;alert" in ops.page(path), path
    assert "<b>column</b> bigint" in words(ops.page("/local/tables/main.s.%3Ci%3Eevil"))
    refused = ops.press(volume, "Drop file", name=EVIL, text=EVIL)
    assert refused.status_code == 422
    assert "<script>alert" not in refused.text


def test_no_credential_is_on_any_page(up: Deployment, ops: Browser, notebooks: Notebooks, tmp_path: Path) -> None:
    secrets = [
        value
        for workspace in up.workspaces.values()
        for value in (workspace.credentials.token, workspace.credentials.client_secret)
    ]
    notebooks.functions["tells"] = lambda run: failure(f"told {' '.join(secrets)} and {TOKEN}")
    parameters: list[dict[str, Any]] = [{"name": "bridge_token", "default": ""}]
    parameters += [{"name": f"secret{number}", "default": secret} for number, secret in enumerate(secrets)]
    job_id = make_job(up, "tells", parameters=parameters)
    run_id = run_now(rest(up), job_id, job_parameters={"bridge_token": TOKEN})
    ended(rest(up), run_id)
    for secret in secrets:
        land(up, f"{LANDING}{secret}", b"")
    for path in (f"/local/jobs/{job_id}", f"/local/runs/{run_id}", "/local/files/main/landing/flights", "/"):
        page = ops.page(path)
        assert [secret for secret in secrets if secret in page] == [], path
        assert TOKEN not in page
    assert ops.page(f"/local/runs/{run_id}").count("(hidden)") == 2 * len(secrets)
    assert f"{TOKEN[:12]}…" in ops.page(f"/local/runs/{run_id}")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (59.9, "59.9 s"),
        (60, "1 min"),
        (3725, "62 min 5 s"),
        (7200, "2 h"),
        (9e5, "10 d 10 h"),
    ],
)
def test_durations_are_said_in_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**50, "1024.0 TiB")])
def test_sizes_are_said_in_one_unit(count: int, text: str) -> None:
    assert size(count) == text
