"""Who may see a page and who may press a button: signed in, from here, and from a page of this very workspace."""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.pages import session, site
from databricks_bridge.local.pages.sign_in import safe_path
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.app import create_app
from tests.local.local_kit import Notebooks
from tests.local.pages.pages_kit import Browser, browser, forms, link, make_job, rest, runs_of, signed_in, words
from tests.local.server.test_malformed_requests import paths_of

FILLED = {
    "job_id": "1",
    "run_id": "1",
    "name": "main.s.t",
    "path:path": "main/s/v",
    "rest:path": "x/y",
} | dict.fromkeys(("catalog", "schema", "table", "volume"), "x")


get, post = partial(httpx.get, verify=False), partial(httpx.post, verify=False)


def filled(template: str) -> str:
    return re.sub(r"\{([^}]*)\}", lambda found: FILLED[found[1]], template)


@pytest.mark.parametrize("template", site.PAGES)
def test_no_page_is_shown_to_who_has_not_signed_in(up: Deployment, template: str) -> None:
    answer = browser(up).get(filled(template))
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/local/sign-in?next=")
    assert browser(up).get(filled(template), headers={"host": "attacker.example"}).status_code == 403


@pytest.mark.parametrize("template", site.ACTIONS)
def test_no_button_works_for_another_site_or_without_the_value_of_the_session(
    up: Deployment, ops: Browser, template: str
) -> None:
    path = filled(template)
    given = {"form_value": session.form_value(up.workspaces["ops"], next(iter(ops.http.cookies.jar)).value or "")}
    for origin in ("http://attacker.example", up.host("met"), "null", ops.host.replace("http:", "https:"), ""):
        refused = ops.http.post(path, data=given, headers={"origin": origin})
        assert (refused.status_code, "another site" in refused.text) == (403, True), origin
    assert ops.http.post(path, data=given).status_code == 403
    for sent in ({}, {"form_value": ""}, {"form_value": "0" * 64}):
        assert "Not from a page of this session" in words(ops.post(path, sent).text)
    unknown = browser(up).post(path, given)
    assert unknown.status_code == 403
    assert "not signed in any more" in unknown.text
    # With all of it the request gets through: what is asked for is not there.
    assert ops.post(path, given).status_code in (400, 404)


def test_no_other_route_is_taken_for_a_page(up: Deployment) -> None:
    workspace = up.workspaces["ops"]
    pages = {path for path, _ in paths_of(site.router(workspace))}
    others = {path for route in create_app(workspace).routes for path, _ in paths_of(route)} - pages
    assert len(others) > 80
    assert [path for path in others if site.is_page(path)] == []
    assert [path for path in pages if not site.is_page(filled(path))] == ["/local/sign-in-links"]


def test_the_workspace_s_token_signs_in_and_no_other(up: Deployment) -> None:
    page = browser(up)
    (form,) = forms(page.page("/local/sign-in?next=/local/jobs"))
    assert form.fields == {"next": "/local/jobs", "token": ""}
    for token in ("", "dapiwrong", up.token("met"), up.workspaces["ops"].credentials.client_secret):
        refused = page.post(form.action, {**form.fields, "token": token})
        assert refused.status_code == 403
        assert "That is not the token of this workspace." in words(refused.text)
        assert not page.http.cookies
        assert token == "" or token not in refused.text
        assert 'value="/local/jobs"' in refused.text
    elsewhere = page.http.post(form.action, data={"token": up.token("ops")}, headers={"origin": "http://x.example"})
    assert (elsewhere.status_code, len(page.http.cookies)) == (403, 0)
    entered = page.post(form.action, {**form.fields, "token": f" {up.token('ops')} "})
    assert (entered.status_code, entered.headers["location"]) == (303, "/local/jobs")
    assert "Jobs" in words(page.page("/local/jobs"))


def test_a_link_signs_in_once_and_is_gone_from_the_address(up: Deployment) -> None:
    first, address = browser(up), link(up)
    assert up.token("ops") not in address
    entered = first.get(address)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert "code" not in entered.headers["location"]
    first.page("/")
    second = browser(up)
    spent = second.get(address)
    assert spent.status_code == 403
    assert "used already" in words(spent.text)
    assert "databricks-bridge local links" in words(spent.text)
    assert second.get("/").status_code == 303
    # Who is signed in already goes on.
    assert first.get(address).status_code == 303
    assert browser(up).get("/local/sign-in?code=never").status_code == 403
    assert (
        browser(up, "met").get(f"{up.host('met')}/local/sign-in?code={link(up).partition('code=')[2]}").status_code
        == 403
    )


def test_a_link_may_lead_to_a_page(up: Deployment) -> None:
    assert browser(up).get(link(up, next="/local/runs?state=failed")).headers["location"] == "/local/runs?state=failed"
    refused = post(
        f"{up.host('ops')}/local/sign-in-links",
        json={"next": "//attacker.example"},
        headers={"authorization": f"Bearer {up.token('ops')}"},
    )
    assert refused.status_code == 400
    assert post(f"{up.host('ops')}/local/sign-in-links").status_code == 401
    assert signed_in(up).post("/local/sign-in-links", {}).status_code == 401


@pytest.mark.parametrize(
    "wanted",
    [
        "//attacker.example",
        "///attacker.example",
        "/\\attacker.example",
        "\\\\attacker.example",
        "/\t/attacker.example",
        "/\n/attacker.example",
        "http://attacker.example/",
        "https:attacker.example",
        "javascript:alert(1)",
        "attacker.example",
        " //attacker.example",
        "/\u2028/x",
        "http://[",
        "",
    ],
)
def test_nothing_leads_to_another_site(up: Deployment, wanted: str) -> None:
    assert safe_path(wanted) == "/"
    code = link(up).partition("code=")[2]
    entered = browser(up).get("/local/sign-in", params={"code": code, "next": wanted})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    page = browser(up)
    entered = page.post("/local/sign-in", {"token": up.token("ops"), "next": wanted})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")


def test_the_cookie_is_for_pages_alone_and_tells_workspaces_apart(up: Deployment, ops: Browser) -> None:
    entered = browser(up).get(link(up))
    name, _, rest_of_it = entered.headers["set-cookie"].partition("=")
    assert name.startswith("databricks_bridge_1001_")
    for word in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=43200"):
        assert word in rest_of_it
    assert "Secure" not in rest_of_it
    assert up.token("ops") not in rest_of_it
    for path in ("/api/2.2/jobs/list", "/local/info", "/local/switches", "/local/faults"):
        assert ops.get(path).status_code == 401
    cookie = ops.http.cookies
    assert get(f"{up.host('met')}/", cookies=cookie).status_code == 303
    assert session.cookie_name(up.workspaces["ops"]) != session.cookie_name(up.workspaces["met"])


def test_a_cookie_that_was_tampered_with_or_is_old_opens_nothing(up: Deployment) -> None:
    workspace = up.workspaces["ops"]
    good = session.begin(workspace)
    assert session.is_valid(workspace, good)
    later = replace(workspace, now=lambda: workspace.now() + session.SESSION_SECONDS)
    assert not session.is_valid(later, good)
    assert not session.is_valid(up.workspaces["met"], good)
    expires, nonce, mac = good.split(".")
    for forged in (
        f"{int(expires) + 1}.{nonce}.{mac}",
        f"{expires}.{nonce}x.{mac}",
        f"{expires}.{nonce}.",
        "..",
        "x",
        "é",
    ):
        assert not session.is_valid(workspace, forged)
    assert session.form_value(workspace, good) != session.form_value(workspace, session.begin(workspace))


def test_a_code_lasts_an_hour(up: Deployment) -> None:
    workspace = up.workspaces["ops"]

    def at(seconds: float) -> Workspace:
        return replace(workspace, now=lambda: workspace.now() + seconds)

    assert session.spend_code(at(session.CODE_SECONDS - 2), session.new_code(workspace))
    old = session.new_code(workspace)
    assert not session.spend_code(at(session.CODE_SECONDS + 1), old)
    assert not session.spend_code(workspace, old)


def test_a_restart_signs_nobody_out_and_keeps_links(tmp_path: Path) -> None:
    engine = InstantEngine(Notebooks().run)
    with deployment_in_thread(tmp_path, ["ops"], engine=engine) as before:
        cookies, kept = signed_in(before).http.cookies, urlsplit(link(before)).query
    with deployment_in_thread(tmp_path, ["ops"], engine=engine) as after:
        assert get(after.host("ops"), cookies=cookies).status_code == 200
        assert get(f"{after.host('ops')}/local/sign-in?{kept}").status_code == 303


def test_signing_out_takes_a_form_of_this_site(up: Deployment) -> None:
    leaving = signed_in(up)
    assert leaving.get("/local/sign-out").status_code in (404, 405)
    assert leaving.post("/local/sign-out", {}).status_code == 403
    leaving.page("/")
    assert leaving.press("/", "Sign out").headers["location"] == "/local/sign-in"
    assert not leaving.http.cookies
    assert leaving.get("/").status_code == 303


def test_signing_out_ends_the_session_for_every_copy_of_its_cookie_and_for_no_other(tmp_path: Path) -> None:
    engine = InstantEngine(Notebooks().run)
    with deployment_in_thread(tmp_path, ["ops"], engine=engine) as before:
        leaving, staying = signed_in(before), signed_in(before)
        copied = httpx.Cookies(leaving.http.cookies)
        run = leaving.form(f"/local/jobs/{make_job(before, 'never started')}", "Run now")
        assert leaving.press("/", "Sign out").status_code == 303
        for path in ("/", "/local/jobs", "/local/runs"):
            answer = get(f"{before.host('ops')}{path}", cookies=copied)
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/local/sign-in")
        leaving.http.cookies = copied
        assert leaving.post(run.action, run.fields).status_code == 403
        assert leaving.post("/local/sign-out", run.fields).status_code == 403
        assert staying.get("/").status_code == 200
    with deployment_in_thread(tmp_path, ["ops"], engine=engine) as after:
        assert get(after.host("ops"), cookies=copied).status_code == 303
        assert get(after.host("ops"), cookies=staying.http.cookies).status_code == 200


def test_another_token_of_the_workspace_ends_its_sessions(up: Deployment) -> None:
    workspace = up.workspaces["ops"]
    cookie = session.begin(workspace)
    assert session.is_valid(workspace, cookie)
    rotated = replace(workspace, credentials=replace(workspace.credentials, token="dapi-another"))
    assert not session.is_valid(rotated, cookie)


def test_a_session_that_has_ended_leaves_no_row(tmp_path: Path) -> None:
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(Notebooks().run)) as up:
        workspace = up.workspaces["ops"]
        session.begin(workspace)
        later = replace(workspace, now=lambda: workspace.now() + session.SESSION_SECONDS + 1)
        kept = session.begin(later)
        rows = workspace.store.query("SELECT value FROM meta WHERE key LIKE 'session:%'")
    assert [row["value"] for row in rows] == [int(kept.partition(".")[0])]


@pytest.mark.parametrize("host", ["attacker.example", "local:18081", "10.0.0.7", "127.0.0.1.attacker.example", "[", ""])
def test_another_name_for_this_machine_is_not_enough(up: Deployment, ops: Browser, host: str) -> None:
    for path in ("/", "/local/runs/1", "/local/sign-in", f"/local/sign-in?code={link(up).partition('code=')[2]}"):
        assert ops.get(path, headers={"host": host}).status_code in (400, 403)
    job_id = make_job(up, "never started")
    form = ops.form(f"/local/jobs/{job_id}", "Run now")
    sent = ops.http.post(form.action, data=form.fields, headers={"host": host, "origin": f"http://{host}"})
    assert sent.status_code in (400, 403)
    entered = post(
        f"{up.host('ops')}/local/sign-in",
        data={"token": up.token("ops")},
        headers={"host": host, "origin": f"http://{host}"},
    )
    assert entered.status_code in (400, 403)
    assert "set-cookie" not in entered.headers
    assert runs_of(rest(up), job_id) == []


@pytest.mark.parametrize("host", ["localhost:80", "localhost", "127.0.0.2:9", "[::1]:9"])
def test_names_and_addresses_of_this_machine_will_do(ops: Browser, host: str) -> None:
    cookie = "; ".join(f"{one.name}={one.value}" for one in ops.http.cookies.jar)
    assert ops.get("/", headers={"host": host, "cookie": cookie}).status_code == 200


def test_pages_are_sent_with_strict_headers(up: Deployment, ops: Browser) -> None:
    for answer in (ops.get("/"), ops.get("/local/runs/7"), browser(up).get("/local/sign-in"), browser(up).get("/")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_health_needs_no_sign_in_and_shows_little(up: Deployment) -> None:
    answer = get(f"{up.host('ops')}/local/health", headers={"host": "local:18081"})
    assert answer.status_code == 200
    assert "not Databricks" in answer.text
    assert words(answer.text).endswith("ops It is up.")


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({"content-type": "application/x-www-form-urlencoded"}, b"x=1&" * 3000, 400),
        ({"content-type": "multipart/form-data"}, b"x", 400),
        ({"content-type": "multipart/form-data; boundary=x"}, b"--x\r\nbroken", 403),
        ({"content-type": "application/json"}, b"{}", 403),
    ],
)
def test_what_is_no_form_is_refused(ops: Browser, headers: dict[str, str], content: bytes, status: int) -> None:
    answer = ops.http.post("/local/jobs/1/run-now", content=content, headers={**headers, "origin": ops.host})
    assert answer.status_code == status, answer.text


def test_a_form_that_is_too_large_is_not_even_read(up: Deployment, ops: Browser) -> None:
    cookie = "; ".join(f"{one.name}={one.value}" for one in ops.http.cookies.jar)
    place = urlsplit(ops.host)
    head = (
        f"POST /local/files/main/s/v HTTP/1.1\r\nHost: {place.netloc}\r\nOrigin: {ops.host}\r\nCookie: {cookie}\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 99999999999\r\n\r\n"
    )
    with socket.create_connection((place.hostname, place.port), timeout=10) as line:
        line.sendall(head.encode())
        assert line.recv(64).startswith(b"HTTP/1.1 413 ")


def test_with_tls_the_cookie_is_kept_to_it(tmp_path: Path) -> None:
    engine = InstantEngine(Notebooks().run)
    with deployment_in_thread(tmp_path, ["ops"], engine=engine, tls=True) as secure:
        trusted = httpx.Client(base_url=secure.host("ops"), verify=ssl.create_default_context(cafile=secure.ca_file))
        headers = {"authorization": f"Bearer {secure.token('ops')}"}
        url = trusted.post("/local/sign-in-links", headers=headers).json()["url"]
        assert url.startswith("https://")
        assert "; Secure" in trusted.get(url).headers["set-cookie"]
        opened = Browser(trusted, secure.host("ops"))
        assert opened.press("/", "Sign out").headers["location"] == "/local/sign-in"
