from __future__ import annotations

import random
from typing import Any

import pytest
from aiohttp import web

from databricks_bridge.core.errors import BadAnswer, InvalidArgument, NotFound
from databricks_bridge.workspace.client import Workspace
from databricks_bridge.workspace.limits import Limits, endpoint

from .conftest import Server, json_answer


async def test_run_now_sends_the_token_and_the_queue(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({"run_id": 12, "number_in_job": 12})]
    assert await workspace.run_now(7, job_parameters={"a": "1"}, idempotency_token="t" * 64) == 12
    assert server.requests == [("POST", "/api/2.2/jobs/run-now")]
    assert server.bodies == [
        {"job_id": 7, "job_parameters": {"a": "1"}, "idempotency_token": "t" * 64, "queue": {"enabled": True}}
    ]


@pytest.mark.parametrize("token", ["", "t" * 65])
async def test_run_now_refuses_a_token_that_the_api_would_refuse(
    server: Server, workspace: Workspace, token: str
) -> None:
    with pytest.raises(InvalidArgument, match="64"):
        await workspace.run_now(7, job_parameters={}, idempotency_token=token)
    assert server.requests == []


async def test_run_now_of_a_continuous_job_that_runs_is_a_bad_answer(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({})]
    with pytest.raises(BadAnswer, match="continuous"):
        await workspace.run_now(7, job_parameters={}, idempotency_token="t")


async def test_A11_a_run_of_130_tasks_has_all_of_them(server: Server, workspace: Workspace) -> None:
    tasks = [{"task_key": f"t{n}", "run_id": n} for n in range(130)]
    shuffled = random.Random(1).sample(tasks, 130)
    clusters = [{"job_cluster_key": "c"}]

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.query["run_id"] == "9"
        if "page_token" not in request.query:
            page: dict[str, Any] = {"tasks": shuffled[:100], "next_page_token": "p2"}
        else:
            page = {"tasks": shuffled[100:]}
        state = {"life_cycle_state": "FUTURE_STATE"}
        return web.json_response({"run_id": 9, "state": state, "job_clusters": clusters, **page})

    server.script = [answer]
    run = await workspace.get_run(9)
    assert {task["task_key"] for task in run["tasks"]} == {f"t{n}" for n in range(130)}
    assert len(run["tasks"]) == 130
    assert run["job_clusters"] == clusters
    assert run["state"] == {"life_cycle_state": "FUTURE_STATE"}
    assert "next_page_token" not in run
    assert len(server.requests) == 2


async def test_a_job_of_many_tasks_has_all_of_them(server: Server, workspace: Workspace) -> None:
    server.script = [
        json_answer({"job_id": 1, "settings": {"name": "a", "tasks": [{"task_key": "x"}]}, "next_page_token": "p"}),
        json_answer({"job_id": 1, "settings": {"name": "a", "tasks": [{"task_key": "y"}]}}),
    ]
    job = await workspace.get_job(1, include_trigger_state=True)
    assert [task["task_key"] for task in job["settings"]["tasks"]] == ["x", "y"]
    assert server.requests[1][1] == "/api/2.2/jobs/get?job_id=1&include_trigger_state=true&page_token=p"


def jobs_page(*names: tuple[int, str], token: str | None = None) -> Any:
    page: dict[str, Any] = {"jobs": [{"job_id": i, "settings": {"name": name}} for i, name in names]}
    return json_answer(page | ({"next_page_token": token} if token else {}))


async def test_A14_a_job_is_found_on_the_last_page_and_by_its_exact_name(server: Server, workspace: Workspace) -> None:
    server.script = [jobs_page((1, "GOLD"), token="p"), jobs_page((2, "gold"))]
    assert await workspace.find_job("gold") == 2
    assert [path for _, path in server.requests] == [
        "/api/2.2/jobs/list?name=gold&limit=100",
        "/api/2.2/jobs/list?name=gold&limit=100&page_token=p",
    ]


async def test_A14_two_jobs_of_one_name_are_both_named(server: Server, workspace: Workspace) -> None:
    server.script = [jobs_page((5, "gold"), token="p"), jobs_page((2, "gold"))]
    with pytest.raises(InvalidArgument, match=r"2, 5"):
        await workspace.find_job("gold")


async def test_a_job_that_is_not_there(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({})]
    with pytest.raises(NotFound, match="'gold'"):
        await workspace.find_job("gold")


async def test_list_runs_pages_only_as_far_as_it_is_read(server: Server, workspace: Workspace) -> None:
    def page(*ids: int, token: str | None = None) -> Any:
        runs = [{"run_id": i, "start_time": i, "trigger": "MODEL"} for i in ids]
        return json_answer({"runs": runs, "has_more": bool(token)} | ({"next_page_token": token} if token else {}))

    server.script = [page(9, 8, token="p"), page(8, 7, token="q"), json_answer({})]
    found = [run["run_id"] async for run in workspace.list_runs(job_id=3, completed_only=True, start_time_from_ms=5)]
    assert found == [9, 8, 7]
    assert server.requests[0][1] == ("/api/2.2/jobs/runs/list?job_id=3&completed_only=true&start_time_from=5&limit=24")
    assert len(server.requests) == 3

    server.requests.clear()
    server.script = [page(9, 8, token="p")]
    async for run in workspace.list_runs():
        assert run["trigger"] == "MODEL"
        break
    assert len(server.requests) == 1


async def test_the_workspace_id_is_the_header_of_any_answer(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({"runs": []}, X_Databricks_Org_Id="1001")]
    await workspace.get("/api/2.2/jobs/runs/list")
    assert await workspace.workspace_id() == "1001"
    assert len(server.requests) == 1


async def test_the_workspace_id_is_asked_for_once(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({"workspace_id": "900800700600"})]
    assert await workspace.workspace_id() == "900800700600"
    assert await workspace.workspace_id() == "900800700600"
    assert server.requests == [("GET", "/.well-known/databricks-config")]


async def test_the_workspace_id_without_a_well_known_document(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({}, 404), json_answer({"userName": "me"}, X_Databricks_Org_Id="77")]
    assert await workspace.workspace_id() == "77"


async def test_a_host_that_is_no_workspace_has_no_id(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({})]
    with pytest.raises(BadAnswer, match="workspace id"):
        await workspace.workspace_id()


async def test_the_other_calls(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({})]
    await workspace.cancel_run(4)
    await workspace.get_run_output(5)
    await workspace.get_table("main.my schema.t/ä")
    await workspace.temporary_table_credentials("uuid")
    assert server.requests == [
        ("POST", "/api/2.2/jobs/runs/cancel"),
        ("GET", "/api/2.2/jobs/runs/get-output?run_id=5"),
        ("GET", "/api/2.1/unity-catalog/tables/main.my%20schema.t%2F%C3%A4"),
        ("POST", "/api/2.0/unity-catalog/temporary-table-credentials"),
    ]
    assert server.bodies[0] == {"run_id": 4}
    assert server.bodies[3] == {"table_id": "uuid", "operation": "READ"}


def test_the_rate_of_an_endpoint_is_half_of_what_is_published() -> None:
    limits = Limits()
    assert limits.bucket("POST", "/api/2.2/jobs/run-now").max_rate == 10
    assert limits.bucket("GET", "/api/2.1/jobs/runs/get").max_rate == 50
    assert limits.bucket("GET", "/api/2.2/jobs/runs/get") is limits.bucket("GET", "/api/2.1/jobs/runs/get")
    assert limits.bucket("GET", "/api/2.1/unity-catalog/tables/a.b.c").max_rate == 10
    assert endpoint("GET", "/.well-known/databricks-config") == ("GET", "")


async def test_headers_of_a_good_answer_have_lower_case_names(server: Server, workspace: Workspace) -> None:
    server.script = [json_answer({}, Delta_Table_Version="7")]
    assert (await workspace.headers("/x", {"a": True}))["delta-table-version"] == "7"
    assert server.requests == [("GET", "/x?a=true")]
    server.script = [json_answer({"error_code": "X", "message": "it does not exist"}, status=404)]
    with pytest.raises(NotFound, match="does not exist"):
        await workspace.headers("/x")


async def test_an_error_nested_as_the_delta_api_gives_it(server: Server, workspace: Workspace) -> None:
    body = {"error": {"message": "no such table", "type": "NoSuchTableException", "code": 404}}
    server.script = [json_answer(body, status=404)]
    with pytest.raises(NotFound, match="NoSuchTableException: no such table") as caught:
        await workspace.get("/x")
    assert caught.value.error_code == "NoSuchTableException"
