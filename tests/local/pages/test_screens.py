"""The pages in a real browser: light and dark, narrow and wide, by keyboard; and forms under the pages' own policy.

With `DATABRICKS_BRIDGE_SCREENSHOTS=docs/pages` the pictures are kept there. Skipped where there is no Chromium.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import Notebooks, eventually
from tests.local.pages.chromium import PROGRAM, Chromium, chromium
from tests.local.pages.pages_kit import (
    BRONZE,
    Browser,
    Sample,
    furnished,
    link,
    make_job,
    rest,
    run_now,
    runs_of,
    signed_in,
    words,
)
from tests.local.pages.png import packed, size_of, variety

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here")

LARGEST_PICTURE_BYTES = 150_000
WIDE, NARROW = 1280, 390
KEPT = ("wide-light", "narrow-dark")
"""What is kept of each page; all four are looked at."""
# In the page: the contrast of each text with what is behind it (WCAG 2, relative luminance), the worst first.
CONTRAST = """(() => {
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const behind = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
    const a = light(parts(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e));
    found.push([(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.tagName, e.className]);
  }
  return found.sort((a, b) => a[0] - b[0])[0];
})()"""
UNLABELLED = """[...document.querySelectorAll('input:not([type=hidden]), textarea, select')]
  .filter(e => !e.labels.length).map(e => e.outerHTML)"""
SHIFTS = """new Promise(done => { let sum = 0;
  new PerformanceObserver(list => { for (const e of list.getEntries()) sum += e.value; })
    .observe({type: 'layout-shift', buffered: true});
  requestAnimationFrame(() => requestAnimationFrame(() => done(sum))); })"""


@pytest.fixture(scope="module")
def sample(up: Deployment, notebooks: Notebooks) -> Sample:
    made = furnished(up, notebooks)
    look = signed_in(up)
    bronze = f"/local/jobs/{made.jobs['bronze-flights']}"
    eventually(lambda: "did not fire" in words(look.page(bronze)))
    eventually(lambda: "Held" in look.page(f"/local/jobs/{made.jobs['partner-files']}"))
    notebooks.block("stream-weather")
    active = run_now(rest(up), make_job(up, "stream-weather"))
    eventually(lambda: "RUNNING" in words(look.page(f"/local/runs/{active}")))
    return made


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("chromium") / "profile") as browser:
        yield browser


@pytest.fixture(scope="module")
def entered(up: Deployment, page: Chromium, sample: Sample) -> Chromium:
    """Signed in by a link, as a person is."""
    page.open(link(up))
    assert page.value("location.pathname + location.search") == "/"
    return page


def addresses(sample: Sample) -> dict[str, str]:
    return {
        "sign-in": "/local/sign-in",
        "overview": "/",
        "jobs": "/local/jobs",
        "job-fired": f"/local/jobs/{sample.jobs['bronze-flights']}",
        "job-held": f"/local/jobs/{sample.jobs['partner-files']}",
        "runs": "/local/runs",
        "run": f"/local/runs/{sample.gold}",
        "run-failed": f"/local/runs/{sample.failed}",
        "run-iterations": f"/local/runs/{sample.looped}",
        "tables": "/local/tables",
        "table": f"/local/tables/{BRONZE}",
        "files": "/local/files",
        "folder": "/local/files/main/landing/partner",
    }


def test_every_page_is_legible_light_and_dark_narrow_and_wide(
    up: Deployment, entered: Chromium, sample: Sample
) -> None:
    asked = os.environ.get("DATABRICKS_BRIDGE_SCREENSHOTS")
    for name, path in addresses(sample).items():
        entered.look(WIDE, dark=False)
        entered.open(up.host("ops") + path)
        assert entered.value("document.body.innerText.includes('not Databricks')"), name
        assert entered.value(UNLABELLED) == [], name
        assert entered.value(SHIFTS) == 0, name
        for width in (WIDE, NARROW):
            for dark in (False, True):
                entered.look(width, dark=dark)
                shown = f"{name}-{'wide' if width == WIDE else 'narrow'}-{'dark' if dark else 'light'}"
                assert entered.value("document.documentElement.scrollWidth") == width, shown
                ratio, *where = entered.value(CONTRAST)
                assert ratio >= 4.5, (shown, ratio, where)
                picture = entered.picture()
                assert size_of(picture)[0] == width, shown
                assert size_of(picture)[1] >= 300, shown
                assert variety(picture) > 50, shown
                if asked and shown.endswith(KEPT):
                    kept = packed(picture)
                    assert len(kept) < LARGEST_PICTURE_BYTES, (shown, len(kept))
                    (Path(asked) / f"{shown}.png").write_bytes(kept)
    assert entered.complaints() == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(
    up: Deployment, entered: Chromium, sample: Sample
) -> None:
    entered.open(f"{up.host('ops')}/local/tables/{BRONZE}")
    reached = []
    for _ in range(40):
        entered.tab()
        where = "document.activeElement"
        reached.append(entered.value(f"{where}.textContent.trim() || {where}.name || {where}.tagName"))
        assert entered.value(f"getComputedStyle({where}).outlineStyle") == "solid", reached[-1]
        if reached[-1] == "Commit row":
            break
    assert reached[:5] == ["Overview", "Jobs", "Runs", "Tables", "Files"]
    assert reached[-3:] == ["2", "json", "Commit row"]


def test_buttons_work_under_the_policy_of_the_pages(up: Deployment, entered: Chromium, sample: Sample) -> None:
    job_id = sample.jobs["check-quality"]
    before = len(runs_of(rest(up), job_id))
    entered.open(f"{up.host('ops')}/local/jobs/{job_id}")
    entered.press("Run now")
    assert "/local/runs/" in entered.value("location.pathname")
    assert len(runs_of(rest(up), job_id)) == before + 1
    entered.open(f"{up.host('ops')}/local/tables/{BRONZE}")
    entered.value("document.querySelector('#c0').value = 'typed'")
    entered.press("Commit row")
    assert "The row is committed, in version 4." in entered.value("document.body.innerText")


def test_the_link_of_a_run_leads_to_it_also_through_the_sign_in(up: Deployment, page: Chromium, ops: Browser) -> None:
    run_id = run_now(rest(up), make_job(up, "linked"))
    address = rest(up).call("GET", "/api/2.2/jobs/runs/get", run_id=run_id)["run_page_url"]
    page.open(link(up))
    page.open(address)
    assert page.value("document.querySelector('#run a').pathname") == f"/local/runs/{run_id}"
    page.press("Sign out")
    page.open(address)
    assert page.value("location.pathname") == "/local/sign-in"
    page.value(f"document.querySelector('#token').value = '{up.token('ops')}'")
    page.press("Sign in")
    assert page.value("location.pathname") == f"/local/runs/{run_id}"
