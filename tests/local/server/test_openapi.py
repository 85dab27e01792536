"""The description of the API is true: of every route, by examples that work, and under generated requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.openapi.document import differences, routes_of
from databricks_bridge.local.pages.databricks_links import LINKS
from databricks_bridge.local.server.app import create_app
from tests.local.server.openapi_kit import Described, call, furnished, remote_repository


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with furnished(tmp_path_factory.mktemp("described") / "home") as deployment:
        yield deployment


@pytest.fixture(scope="module")
def described(up: Deployment) -> Described:
    return Described.of(up)


def test_every_route_is_described_and_every_description_is_served(up: Deployment) -> None:
    app = create_app(up.workspaces["ops"])
    served = [found for route in app.routes for found in routes_of(route)]
    missing, too_many = differences(served)
    assert missing == [], "describe them in databricks_bridge/local/openapi"
    assert too_many == []


def test_it_is_valid_openapi(described: Described) -> None:
    described.schema.validate()


NOT_SENT = {
    "DELETE /api/2.0/sql/sessions/{session_id}",
    "DELETE /api/2.0/sql/statements/{statement_id}",
    "GET /local/results/{statement_id}/{index}",
    "GET /api/2.0/delta-sharing/metastores/{metastore_id}/shares/{share}/schemas/{schema}/tables/{table}/changes",
}
"""What closes a session or a statement: `clients/test_sql_connector.py` does it. An address that is made with a result, and is signed; and what is always refused. Nor are buttons of pages, and addresses
below which there is nothing."""


def test_each_example_works_as_it_stands(up: Deployment, described: Described, tmp_path: Path) -> None:
    """In the order of the description; what it cannot know (a secret, a statement, a remote repository) is given."""
    secrets = up.workspaces["ops"].credentials
    statement = {"warehouse_id": f"{1001:016x}", "statement": "SELECT 1 AS n"}
    made = call(up, "ops", "POST", "/api/2.0/sql/statements", json=statement).json()
    for place in ("GET {}", "POST {}/cancel", "GET {}/result/chunks/{{chunk_index}}"):
        path = place.format("/api/2.0/sql/statements/{statement_id}")
        described.more[path] = {"statement_id": made["statement_id"]}
    form = {"grant_type": "client_credentials", "client_id": secrets.client_id, "client_secret": secrets.client_secret}
    described.more["POST /oidc/v1/token"] = {"body": form}
    share = {"catalog": "again_from_met", "source_metastore": "met", "source_catalog": "main", "schemas": ["silver"]}
    described.more["POST /local/shares"] = {"body": share}
    refused = []
    with remote_repository(tmp_path) as url:
        described.more["POST /api/2.0/repos"] = {"body": {"url": url, "provider": "gitHub"}}
        for operation in described.operations:
            if (
                operation.label in NOT_SENT
                or operation.path in LINKS
                or "{rest}" in operation.path
                or (described.is_page(operation) and operation.method == "post")
            ):
                continue
            answer = described.sent(described.example(operation))
            if not 200 <= answer.status_code < 300:
                refused.append((operation.label, answer.status_code, answer.text[:300]))
    assert not refused, "\n".join(map(str, refused))


EACH = {"positive": 2, "negative": 2}
ALIASES = ("/api/2.0/jobs", "/api/2.1/jobs", "/api/2.1/clusters", "/api/2.1/policies", "/api/2.0/unity-catalog")
"""Served by the same functions as other versions."""


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_generated_request_is_answered_500(described: Described, mode: str) -> None:
    """Valid ones, and ones that break the description; with what is there put into half of them. Answers are as declared."""
    answered: Counter[int] = Counter()
    wrong = []
    for operation in described.operations:
        # Pages take any text, so nothing can be wrong for them.
        if not operation.path.startswith(ALIASES) and not (mode == "negative" and described.is_page(operation)):
            try:
                # Where nothing is given, nothing can be given wrongly.
                with suppress(Unsatisfiable):
                    _generated(described, operation, mode, answered)
            except (FailureGroup, AssertionError) as error:
                wrong.append(f"{operation.label}: {error!r} {error}")
    assert not wrong, "\n".join(wrong)
    assert sum(answered.values()) > 200, answered
    assert {200, 400, 404} <= answered.keys(), answered


def _generated(described: Described, operation: Any, mode: str, answered: Counter[int]) -> None:
    known = described.example(operation)

    @settings(
        max_examples=EACH[mode],
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=GenerationMode(mode)), st.booleans())
    def sent(case: Any, with_known: bool) -> None:
        answered[described.sent(described.filled(case, known) if with_known else case).status_code] += 1

    sent()
