"""Faults on purpose: each does what it says, for as long as it says, and nothing after it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.faults import Faults
from tests.local.local_kit import Api, client

MakeJob = Callable[..., int]
LIST = "/api/2.2/jobs/list"


def arm(http: httpx.Client, kind: str, **more: Any) -> int:
    answer = http.post("/local/faults", json={"kind": kind, **more})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["fault_id"])


def test_429_for_30_seconds_with_retry_after_and_for_its_own_workspace_alone(
    deployment: Deployment, http: httpx.Client
) -> None:
    fault_id = arm(http, "rate_limit", seconds=30)
    answer = http.get(LIST)
    assert (answer.status_code, answer.json()["error_code"]) == (429, "REQUEST_LIMIT_EXCEEDED")
    assert 25 <= int(answer.headers["Retry-After"]) <= 30
    assert list(client(deployment, "met").jobs.list()) == []
    assert http.get("/local/faults").json() == {
        "faults": [{"fault_id": fault_id, "kind": "rate_limit", "seconds": 30.0}]
    }
    assert http.delete(f"/local/faults/{fault_id}").status_code == 200
    assert http.get(LIST).status_code == 200
    assert http.delete(f"/local/faults/{fault_id}").status_code == 404


def test_a_count_and_a_path(http: httpx.Client, api: Api) -> None:
    arm(http, "unavailable", count=2, path="/jobs/list")
    assert http.get("/api/2.2/jobs/runs/list").status_code == 200
    answers = [http.get(LIST) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [503, 503, 200]
    assert answers[0].json()["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert http.get("/local/faults").json() == {"faults": []}


def test_the_sdk_waits_as_long_as_it_is_told(ops: Any, http: httpx.Client) -> None:
    arm(http, "rate_limit", count=1)
    began = time.monotonic()
    assert list(ops.jobs.list()) == []
    assert time.monotonic() - began >= 1


def test_drop_answer_after_act(http: httpx.Client, api: Api, make_job: MakeJob) -> None:
    """A run-now without a token, sent again, is a second run; with one it is the same."""
    job_id = make_job(max_concurrent_runs=9)
    arm(http, "drop_answer", path="/run-now")
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        http.post("/api/2.2/jobs/run-now", json={"job_id": job_id})
    (lost,) = api.get("runs/list")["runs"]
    assert http.get(LIST).status_code == 200
    again = http.post("/api/2.2/jobs/run-now", json={"job_id": job_id}).json()["run_id"]
    assert again != lost["run_id"]
    arm(http, "drop_answer", path="/run-now")
    body = {"job_id": job_id, "idempotency_token": "t"}
    with pytest.raises(httpx.HTTPError):
        http.post("/api/2.2/jobs/run-now", json=body)
    third = http.post("/api/2.2/jobs/run-now", json=body).json()["run_id"]
    assert len(api.get("runs/list")["runs"]) == 3
    assert third not in (again, lost["run_id"])


def test_the_sdk_sends_a_lost_run_now_again(ops: Any, http: httpx.Client, api: Api, make_job: MakeJob) -> None:
    job_id = make_job(max_concurrent_runs=9)
    arm(http, "drop_answer", path="/run-now")
    ops.jobs.run_now(job_id, idempotency_token="once")
    assert len(api.get("runs/list")["runs"]) == 1
    arm(http, "drop_answer", path="/run-now")
    ops.jobs.run_now(job_id)
    assert len(api.get("runs/list")["runs"]) == 3


def test_expired_tokens(deployment: Deployment, http: httpx.Client) -> None:
    known = deployment.workspaces["ops"].credentials
    form = {"grant_type": "client_credentials", "client_id": known.client_id, "client_secret": known.client_secret}
    token = httpx.post(f"{deployment.host('ops')}/oidc/v1/token", data=form).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert http.get(LIST, headers=headers).status_code == 200
    arm(http, "expire_tokens")
    answer = http.get(LIST, headers=headers)
    assert (answer.status_code, answer.json()["message"]) == (403, "Invalid access token.")
    assert http.get(LIST).status_code == 200
    assert http.get("/local/faults").json() == {"faults": []}


def test_the_clock_goes_forward_an_hour_and_oauth_tokens_with_it(
    deployment: Deployment, http: httpx.Client, api: Api, make_job: MakeJob
) -> None:
    known = deployment.workspaces["ops"].credentials
    form = {"grant_type": "client_credentials", "client_id": known.client_id, "client_secret": known.client_secret}
    token = httpx.post(f"{deployment.host('ops')}/oidc/v1/token", data=form).json()["access_token"]
    fault_id = arm(http, "clock", seconds=3600)
    run = api.ended(api.post("run-now", job_id=make_job())["run_id"])
    assert run["start_time"] / 1000 - time.time() == pytest.approx(3600, abs=60)
    assert http.get(LIST, headers={"Authorization": f"Bearer {token}"}).status_code == 403
    http.delete(f"/local/faults/{fault_id}")
    run = api.ended(api.post("run-now", job_id=make_job(name="later"))["run_id"])
    assert run["start_time"] / 1000 - time.time() == pytest.approx(0, abs=60)


def test_slow_storage(ops: Any, http: httpx.Client) -> None:
    fault_id = arm(http, "slow_storage", delay_seconds=0.5)
    began = time.monotonic()
    list(ops.workspace.list("/"))
    assert time.monotonic() - began >= 0.5
    http.delete(f"/local/faults/{fault_id}")


def test_published_limits_refuse_the_sixth_repair_of_a_second() -> None:
    now = [100.0]
    faults = Faults(lambda: now[0])
    faults.arm("ops", "ops", "published_limits")
    path = "/api/2.2/jobs/runs/repair"
    assert [faults.refusal("ops", path) for _ in range(6)] == [None] * 5 + [("rate_limit", 1)]
    assert faults.refusal("ops", "/api/2.1/jobs/runs/get") is None
    assert faults.refusal("met", path) is None
    now[0] += 0.2
    assert [faults.refusal("ops", path) for _ in range(2)] == [None, ("rate_limit", 1)]


def test_published_limits_over_http(http: httpx.Client) -> None:
    arm(http, "published_limits")
    answers = [http.post("/api/2.2/jobs/runs/cancel-all", json={"job_id": 1}) for _ in range(40)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert refused[0].headers["Retry-After"] == "1"


def test_a_fault_ends_with_its_time() -> None:
    now = [0.0]
    faults = Faults(lambda: now[0])
    faults.arm("ops", "ops", "rate_limit", seconds=30)
    assert faults.refusal("ops", LIST) == ("rate_limit", 30)
    now[0] = 20
    assert faults.refusal("ops", LIST) == ("rate_limit", 10)
    now[0] = 30
    assert faults.refusal("ops", LIST) is None
    assert faults.of("ops") == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "storm"}, "use one of rate_limit"),
    ({"kind": "clock"}, "clock needs seconds"),
    ({"kind": "slow_storage"}, "needs delay_seconds"),
    ({"kind": "rate_limit", "seconds": -1}, "seconds is -1.0; give a number above 0"),
    ({"kind": "rate_limit", "seconds": "soon"}, "seconds must be a number"),
    ({"kind": "revoke", "securable": "main"}, "catalog.schema.table"),
    ({"kind": "revoke", "securable": "a.b.c", "privilege": "EAT"}, "use one of SELECT"),
    ({"kind": "rate_limit", "every": 3}, "a fault has no every"),
]


def test_faults_that_are_refused(http: httpx.Client) -> None:
    for body, said in REFUSED:
        answer = http.post("/local/faults", json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE"), body
        assert said in answer.json()["message"]


def test_a_test_may_arm_it_itself(deployment: Deployment, http: httpx.Client) -> None:
    faults = deployment.workspaces["ops"].faults
    faults.arm("ops", "ops", "rate_limit", count=1)
    assert [http.get(LIST).status_code for _ in range(2)] == [429, 200]
    with pytest.raises(InvalidArgument, match="use one of"):
        faults.arm("ops", "ops", "nothing")
