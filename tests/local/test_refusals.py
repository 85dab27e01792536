"""What is not served: the documents say what the list says, and the server answers with the words of the list."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import pytest

from databricks_bridge.local.refusals import ALL, Area, Refusal
from databricks_bridge.local.refusals.tables import areas_in, written

DOCS = Path(__file__).parents[2] / "docs"


def of(*areas: Area) -> list[Refusal]:
    return [entry for entry in ALL if entry.area in areas]


def test_the_documents_are_made_from_the_list() -> None:
    documents = sorted(DOCS.glob("*.md"))
    for document in documents:
        text = document.read_text()
        assert text == written(text), f"run: python -m databricks_bridge.local.refusals {DOCS.name}"
    shown = [area for document in documents for area in areas_in(document.read_text())]
    assert sorted(shown) == sorted(Area)


def test_each_thing_is_in_the_list_once_and_has_an_example() -> None:
    assert [name for name, count in Counter((entry.area, entry.name) for entry in ALL).items() if count > 1] == []
    assert [entry.name for entry in ALL if entry.example is None] == []


@pytest.mark.parametrize("entry", of(Area.API, Area.CLIENT), ids=lambda entry: entry.name)
def test_an_api_that_is_not_served_is_refused_at_once_in_these_words(http: httpx.Client, entry: Refusal) -> None:
    method, path = entry.example
    session = {"warehouse_id": f"{1001:016x}", "session_confs": {"ANSI_MODE": "true"}}
    answer = http.request(method, path, json=session if path.endswith("sessions") else {})
    assert 400 <= answer.status_code < 500, answer.text
    assert entry.words in answer.json()["message"]


@pytest.mark.parametrize("call", ["create", "runs/submit", "runs/submit in the form of API 2.0"])
def test_task_kinds_that_are_not_run_are_refused_in_these_words(http: httpx.Client, call: str) -> None:
    path = f"/api/2.2/jobs/{call.split()[0]}"
    for entry in of(Area.TASK):
        body = entry.example if "2.0" in call else {"tasks": [{"task_key": "a", **entry.example}]}
        answer = http.post(path, json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "FEATURE_DISABLED"), entry.name
        assert entry.words in answer.json()["message"]


def test_settings_that_are_not_followed_are_refused_in_these_words(http: httpx.Client) -> None:
    http.post("/api/2.1/unity-catalog/catalogs", json={"name": "main"}).raise_for_status()
    for entry in of(Area.SETTING):
        call, body = entry.example
        method, path = {
            "PATCH": ("PATCH", "/api/2.1/unity-catalog/catalogs/main"),
            "POST": ("POST", "/api/2.1/unity-catalog/catalogs"),
            "PUT permissions": ("PUT", "/api/2.0/permissions/clusters/1"),
        }.get(call, ("POST", f"/api/2.2/jobs/{call}"))
        answer = http.request(method, path, json={"name": "new", **body} if call == "POST" else body)
        assert 400 <= answer.status_code < 500, (entry.name, answer.text)
        assert entry.words in answer.json()["message"], entry.name
