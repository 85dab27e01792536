from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime

import aiohttp
import aiohttp.web
import pytest

from databricks_bridge.core import errors
from databricks_bridge.core.errors import (
    BadAnswer,
    InvalidArgument,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    Throttled,
    Unavailable,
    WorkspaceError,
)
from databricks_bridge.workspace import transport
from databricks_bridge.workspace.answers import retry_after
from databricks_bridge.workspace.client import Workspace

from .conftest import Handler, Login, Server, Time, cut, dropped, json_answer, slow, text_answer

GOOD = json_answer({"ok": True})


REFUSALS = [
    (400, "INVALID_PARAMETER_VALUE", "Run 7 does not exist.", NotFound),
    (400, "INVALID_PARAMETER_VALUE", "limit is too large", WorkspaceError),
    (400, "MALFORMED_REQUEST", "bad", WorkspaceError),
    (401, "UNAUTHENTICATED", "who?", NotAuthenticated),
    (403, "PERMISSION_DENIED", "User x does not have View permissions on job 1", NotPermitted),
    (403, "403", "Invalid access token.", NotAuthenticated),
    (403, "403", "Token is expiring within 30 seconds. (token expired)", NotAuthenticated),
    (403, "PERMISSION_DENIED", "Invalid Token", NotAuthenticated),
    (403, "403", "The access token has expired", NotAuthenticated),
    (403, "PERMISSION_DENIED", "The page token is expired", NotPermitted),
    (400, "BAD_REQUEST", "io.jsonwebtoken.ExpiredJwtException: JWT expired at 2026-01-01T00:00:00Z", NotAuthenticated),
    (400, "INVALID_PARAMETER_VALUE", "Invalid token: idempotency_token is too long", WorkspaceError),
    (400, "EXTERNAL_ACCESS_NOT_ALLOWED_FOR_TABLE", "no", NotPermitted),
    (403, "EXTERNAL_ACCESS_DISABLED_ON_METASTORE", "off", NotPermitted),
    (404, "RESOURCE_DOES_NOT_EXIST", "gone", NotFound),
    (404, "ENDPOINT_NOT_FOUND", "No API found", BadAnswer),
    (409, "RESOURCE_CONFLICT", "busy", WorkspaceError),
    (418, "TEAPOT", "odd", WorkspaceError),
]


@pytest.mark.parametrize(("status", "code", "message", "kind"), REFUSALS)
async def test_a_refusal_is_its_own_error_and_is_not_tried_again(
    server: Server, workspace: Workspace, time: Time, status: int, code: str, message: str, kind: type[WorkspaceError]
) -> None:
    server.script = [json_answer({"error_code": code, "message": message}, status)]
    with pytest.raises(WorkspaceError) as caught:
        await workspace.get("/api/2.2/jobs/get", {"job_id": 1})
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.error_code) == (status, code)
    for part in ("GET", "/api/2.2/jobs/get", server.host, str(status), code, message):
        assert part in str(caught.value)
    assert time.pauses == []
    assert len(server.requests) == (2 if kind is NotAuthenticated else 1)


@pytest.mark.parametrize("status", [400, 401, 403])
async def test_details_decide_before_the_status(
    server: Server, workspace: Workspace, login: Login, status: int
) -> None:
    """External data access is off: new credentials would change nothing, so none are asked for."""
    reason = "UNITY_CATALOG_EXTERNAL_GENERATE_TABLE_CREDENTIALS_DENIED"
    body = {"error_code": "UNAUTHENTICATED", "message": "denied", "details": [{"@type": "ErrorInfo", "reason": reason}]}
    server.script = [json_answer(body, status)]
    with pytest.raises(NotPermitted, match=r"external data access.*EXTERNAL USE SCHEMA.*via='sql'") as caught:
        await workspace.post("/api/2.0/unity-catalog/temporary-table-credentials", {}, safe=True)
    assert reason in str(caught.value)
    assert "check the token" not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("details", [None, "x", [], [None, 7, {"reason": None}], {"reason": "X"}])
async def test_details_of_any_form_do_no_harm(server: Server, workspace: Workspace, details: object) -> None:
    server.script = [json_answer({"error_code": "PERMISSION_DENIED", "message": "no", "details": details}, 403)]
    with pytest.raises(NotPermitted, match="HTTP 403 PERMISSION_DENIED: no"):
        await workspace.get("/x")


@pytest.mark.parametrize(
    "trouble",
    [
        json_answer({"error_code": "INTERNAL_ERROR", "message": "oops"}, 500),
        json_answer({"error_code": "TEMPORARILY_UNAVAILABLE", "message": "later"}, 503),
        json_answer({"error_code": "COULD_NOT_ACQUIRE_LOCK", "message": "busy"}, 400),
        text_answer("<html>Bad Gateway</html>", 502),
        text_answer('{"run_id": 1', 200, "application/json"),
        text_answer("", 408),
        cut,
    ],
)
async def test_trouble_is_tried_again_after_growing_pauses(
    server: Server, workspace: Workspace, time: Time, trouble: Handler
) -> None:
    server.script = [trouble, trouble, trouble, GOOD]
    assert await workspace.get("/api/2.2/jobs/get") == {"ok": True}
    assert time.pauses == [0.75, 1.5, 3.0]
    assert len(server.requests) == 4


async def test_a_reset_connection_is_tried_again(server: Server, workspace: Workspace, time: Time) -> None:
    server.script = [dropped, GOOD]
    assert await workspace.get("/api/2.2/jobs/get") == {"ok": True}
    assert time.pauses in ([], [0.75])  # aiohttp itself sends a GET again once when a kept connection drops
    assert len(server.requests) == 2


async def test_a_refused_connection_gives_up_when_the_budget_is_spent(time: Time, login: Login) -> None:
    async with Workspace(
        "http://127.0.0.1:1",
        login.headers,
        sleep=time.sleep,
        clock=time.clock,
        random=lambda: 1.0,
        budget_seconds=20,
    ) as client:
        with pytest.raises(Unavailable, match=r"gave up after 5 tries in 15 s"):
            await client.get("/api/2.2/jobs/get")
    assert time.pauses == [1, 2, 4, 8]


async def test_a_try_has_its_own_limit(server: Server, time: Time, login: Login) -> None:
    server.script = [slow, GOOD]
    async with Workspace(
        server.host, login.headers, sleep=time.sleep, clock=time.clock, random=lambda: 0.5, try_seconds=0.2
    ) as client:
        assert await client.get("/x") == {"ok": True}
    assert time.pauses == [0.75]


async def test_retry_after_is_obeyed_with_a_little_on_top(server: Server, workspace: Workspace, time: Time) -> None:
    limited = json_answer({"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "slow"}, 429, Retry_After="7")
    server.script = [limited] * 5 + [GOOD]
    assert await workspace.get("/api/2.2/jobs/runs/get") == {"ok": True}
    assert time.pauses == [7.5] * 4 + [12.0]
    assert len(server.requests) == 6


async def test_retry_after_counts_for_503_too(server: Server, workspace: Workspace, time: Time) -> None:
    server.script = [text_answer("busy", 503, Retry_After="20"), GOOD]
    await workspace.get("/x")
    assert time.pauses == [21.0]


async def test_a_pause_longer_than_the_budget_is_handed_to_the_caller(
    server: Server, workspace: Workspace, time: Time
) -> None:
    server.script = [json_answer({"message": "slow"}, 429, Retry_After="600")]
    with pytest.raises(Throttled, match="600 s") as caught:
        await workspace.get("/x")
    assert caught.value.retry_after == 600
    assert time.pauses == []
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("999999", 3600),
        ("Sun, 29 Nov 2026 12:00:30 GMT", 30),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-3", None),
        ("", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str, seconds: float | None) -> None:
    headers = {"retry-after": header}
    assert retry_after(headers, datetime(2026, 11, 29, 12, tzinfo=UTC)) == seconds
    skewed = headers | {"date": "Sun, 29 Nov 2026 12:00:00 GMT"}
    assert retry_after(skewed, datetime(2020, 1, 1, tzinfo=UTC)) == seconds


async def test_a_post_that_is_not_safe_is_sent_once(server: Server, workspace: Workspace, time: Time) -> None:
    server.script = [json_answer({}, 500), GOOD]
    with pytest.raises(Unavailable):
        await workspace.post("/api/2.2/jobs/runs/repair", {"run_id": 1}, safe=False)
    assert len(server.requests) == 1
    assert time.pauses == []


async def test_a_safe_post_is_sent_again(server: Server, workspace: Workspace, time: Time) -> None:
    server.script = [cut, json_answer({}, 500), GOOD]
    assert await workspace.post("/x", {"a": 1}, safe=True) == {"ok": True}
    assert server.bodies == [{"a": 1}] * 3


async def test_a_rotated_token_is_seen_after_one_refusal(
    server: Server, workspace: Workspace, time: Time, login: Login
) -> None:
    server.script = [json_answer({"error_code": "UNAUTHENTICATED"}, 401), GOOD]
    assert await workspace.post("/x", {}, safe=False) == {"ok": True}
    assert [h["Authorization"] for h in server.headers] == ["Bearer dapi-secret-one", "Bearer dapi-secret-two"]
    assert time.pauses == []


async def test_credentials_are_rebuilt_once_for_a_crowd(server: Server, workspace: Workspace, login: Login) -> None:
    async def by_token(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        await asyncio.sleep(0.05)
        if request.headers["Authorization"].endswith("one"):
            return aiohttp.web.json_response({"error_code": "UNAUTHENTICATED"}, status=401)
        return aiohttp.web.json_response({})

    server.script = [by_token]
    await asyncio.gather(*(workspace.get("/api/2.2/jobs/runs/get", {"run_id": n}) for n in range(10)))
    assert login.rebuilt == 1


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 429, 500, 503])
async def test_a_token_that_comes_back_is_not_in_the_message(server: Server, workspace: Workspace, status: int) -> None:
    async def echo(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        sent = request.headers["Authorization"]
        return aiohttp.web.json_response({"error_code": "X", "message": f"{sent}: token {sent[7:]}"}, status=status)

    server.script = [echo]
    with pytest.raises(errors.BridgeError) as caught:
        await workspace.get("/x")
    assert "dapi" not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r} {workspace!r}"


@pytest.mark.parametrize("body", ["<html>404</html>", "{}", '"gone"'])
async def test_the_404_of_a_gateway_does_not_mean_that_the_run_is_gone(
    server: Server, workspace: Workspace, body: str
) -> None:
    server.script = [text_answer(body, 404, "application/json" if body == "{}" else "text/html")]
    with pytest.raises(BadAnswer, match="Databricks workspace"):
        await workspace.get_run(7)
    server.script = [json_answer({"message": "Run 7 does not exist."}, 404)]
    with pytest.raises(NotFound):
        await workspace.get_run(7)


async def test_a_redirect_is_not_followed(server: Server, workspace: Workspace) -> None:
    server.script = [text_answer("", 302, Location="https://login.example/")]
    with pytest.raises(BadAnswer, match=r"redirect to https://login\.example/"):
        await workspace.get("/x")
    assert len(server.requests) == 1


@pytest.mark.parametrize(("body", "kind"), [("<html>log in</html>", "text/html"), ("[1]", "application/json")])
async def test_a_good_status_with_a_wrong_body_is_a_bad_answer(
    server: Server, workspace: Workspace, body: str, kind: str
) -> None:
    server.script = [text_answer(body, 200, kind)]
    with pytest.raises(BadAnswer):
        await workspace.get("/x")
    assert len(server.requests) == 1


async def test_the_query_is_in_the_url_and_a_get_has_no_body(server: Server, workspace: Workspace) -> None:
    server.script = [GOOD]
    await workspace.get("/api/2.2/jobs/runs/list", {"active_only": True, "job_id": 7, "page_token": "a b&c", "x": None})
    assert server.requests == [("GET", "/api/2.2/jobs/runs/list?active_only=true&job_id=7&page_token=a+b%26c")]
    assert server.bodies == [None]
    assert server.headers[0]["User-Agent"].startswith("databricks-bridge/")


def test_every_error_of_aiohttp_has_a_row() -> None:
    classes = [c for _, c in inspect.getmembers(aiohttp, inspect.isclass) if issubclass(c, BaseException)]
    classes = [c for c in classes if not c.__name__.startswith(("WS", "WebSocket"))]
    assert len(classes) > 15
    never_here = (Warning, aiohttp.http_exceptions.HttpProcessingError, aiohttp.EofStream)
    unmapped = [
        c.__name__
        for c in classes
        if not issubclass(c, never_here) and not any(issubclass(c, row[0]) for row in transport.TRANSLATION)
    ]
    assert unmapped == []


def test_a_host_that_is_no_url_is_refused(login: Login) -> None:
    with pytest.raises(InvalidArgument, match="https://name"):
        Workspace("adb-1.azuredatabricks.net", login.headers)
