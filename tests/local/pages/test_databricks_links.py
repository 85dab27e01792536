"""Links that Databricks' command line prints lead a browser to the sign-in, and then to the page."""

from __future__ import annotations

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment


@pytest.mark.parametrize(
    ("link", "page"),
    [
        ("/jobs/17?w=1001", "/local/jobs/17"),
        ("/jobs/17/runs/18?o=1001", "/local/runs/18"),
        ("/jobs?o=1001", "/local/jobs"),
        ("/explore/data/main?w=1001", "/local/tables"),
        ("/explore/data/main/silver?w=1001", "/local/tables"),
        ("/explore/data/main/silver/flights", "/local/tables/main.silver.flights"),
        ("/explore/data/volumes/main/silver/landing", "/local/files/main/silver/landing"),
    ],
)
def test_a_link_leads_to_the_sign_in_and_to_the_page(deployment: Deployment, link: str, page: str) -> None:
    with httpx.Client(base_url=deployment.host("ops"), timeout=20) as browser:
        first = browser.get(link)
        assert (first.status_code, first.headers["location"]) == (303, page)
        second = browser.get(page)
        assert second.status_code == 303
        assert second.headers["location"].startswith("/local/sign-in?next=")
        assert "Sign in" in browser.get(second.headers["location"]).text


def test_no_link_leads_elsewhere(deployment: Deployment) -> None:
    with httpx.Client(base_url=deployment.host("ops"), timeout=20) as browser:
        for link in ("/jobs/%2F%2Fevil.example", "/explore/data/%5C%5Cevil/s/t"):
            answer = browser.get(link)
            assert answer.status_code in (303, 404)
            assert answer.headers.get("location", "/local/").startswith("/local/")
        assert browser.get("/jobs/a/b/c/d").status_code == 404
