"""Listings that come in pages: all of it, or an error; never a part that passes for the whole."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from databricks_bridge.core.errors import BadAnswer, NotPermitted, Unavailable, WorkspaceError
from databricks_bridge.workspace.client import Workspace
from tests.workspace.conftest import Server, json_answer, text_answer

EXPIRED = {"error_code": "INVALID_PARAMETER_VALUE", "message": "The page token has expired."}


def page(*ids: int, token: str | None = None, **more: Any) -> Any:
    body = {"runs": [{"run_id": one, "start_time": one} for one in ids], **more}
    return json_answer(body | ({"next_page_token": token} if token else {}))


async def listed(workspace: Workspace) -> list[int]:
    return [run["run_id"] async for run in workspace.list_runs()]


async def test_a_page_token_that_is_refused_begins_anew_and_tells_nothing_twice(
    server: Server, workspace: Workspace
) -> None:
    server.script = [page(9, 8, token="p"), json_answer(EXPIRED, 400), page(10, 9, token="q"), page(8, 7)]
    assert await listed(workspace) == [9, 8, 10, 7]
    assert [path.partition("page_token=")[2] for _, path in server.requests] == ["", "p", "", "q"]


@pytest.mark.parametrize(
    ("refusal", "error"),
    [((EXPIRED, 400), WorkspaceError), (({"error_code": "PERMISSION_DENIED", "message": "no"}, 403), NotPermitted)],
    ids=["refused twice", "not permitted"],
)
async def test_C10_a_refusal_in_the_middle_is_an_error_and_no_end(
    server: Server, workspace: Workspace, refusal: tuple[Any, int], error: type[Exception]
) -> None:
    server.script = [page(9, token="p"), json_answer(*refusal), page(9, token="p"), json_answer(*refusal)]
    with pytest.raises(error):
        await listed(workspace)


async def test_C10_a_first_page_that_is_refused_is_not_asked_for_again(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer(EXPIRED, 400)]
    with pytest.raises(WorkspaceError, match="expired"):
        await listed(workspace)
    assert len(server.requests) == 1


async def test_C10_more_without_a_way_there_is_an_error_and_no_end(server: Server, workspace: Workspace) -> None:
    """As pages of API 2.1 by offset say it."""
    server.script = [page(9, has_more=True)]
    with pytest.raises(BadAnswer, match="says that there is more"):
        await listed(workspace)


async def test_pages_that_go_in_a_circle_end_in_an_error(server: Server, workspace: Workspace) -> None:
    server.script = [page(9, token="p"), page(8, token="q"), page(7, token="p")]
    with pytest.raises(BadAnswer, match="in a circle"):
        await listed(workspace)


async def test_an_empty_body_is_no_empty_listing(server: Server, workspace: Workspace) -> None:
    """Nothing at all is an answer cut short: it is asked for again."""
    server.script = [text_answer("", 200, "application/json"), page(9, 8)]
    assert await listed(workspace) == [9, 8]
    server.script = [text_answer("", 200, "application/json")] * 50
    with pytest.raises(Unavailable, match="nothing where JSON was due"):
        await listed(workspace)


@pytest.mark.parametrize("broken", [{"run_id": None}, {"start_time": None}, {"run_id": "9"}, "text", None])
async def test_a_run_that_cannot_be_placed_is_left_out_with_a_warning(
    server: Server, workspace: Workspace, broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    one = {"run_id": 5, "start_time": 5} | broken if isinstance(broken, dict) else broken
    server.script = [json_answer({"runs": [{"run_id": 9, "start_time": 9}, one, {"run_id": 8, "start_time": 8}]})]
    with caplog.at_level(logging.WARNING):
        assert await listed(workspace) == [9, 8]
    assert "a run without run_id or start_time; it is left out" in caplog.text
