"""Bodies are checked where they come in: numbers may come as text, everything else has the type that the SDK declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from databricks_bridge.local.request_fields.check import WrongType, checked
from databricks_bridge.local.request_fields.declaration import FILE, SCALARS, declaration
from databricks_bridge.local.request_fields.from_sdk import declared_by_sdk, written
from tests.local.local_kit import Api

TASK = {"task_key": "main", "notebook_task": {"notebook_path": "/Shared/main"}}
VALUES: dict[str, Any] = {"text": "x", "integer": 1.5, "boolean": True, "list": [1], "object": {"a": 1}}
FITS = {
    "text": {"text"},
    "scalar": {"text", "integer", "boolean"},
    "id": {"text"},
    "integer": set(),
    "number": {"integer"},
    "boolean": {"boolean"},
}


def test_the_declaration_is_what_the_installed_sdk_says() -> None:
    assert FILE.read_text() == written(declared_by_sdk()), "run: python -m databricks_bridge.local.request_fields"


def wrong_values(word: str) -> list[Any]:
    """A value of each JSON type that a field of this type does not take."""
    fits = FITS.get(word, {"list"} if word.startswith("[") else {"object"})
    if word in declaration().enums:
        fits = set()
    return [value for kind, value in VALUES.items() if kind not in fits]


def paths(fields: dict[str, str], above: tuple[Any, ...] = (), seen: frozenset[str] = frozenset()) -> Iterator[Any]:
    """`(path, word)` of every declared field below; a path names fields, and 0 the first of a list."""
    for name, word in fields.items():
        path = (*above, name)
        yield path, word
        while word.startswith(("[", "{")):
            path, word = (*path, 0 if word.startswith("[") else "a"), word[1:-1]
            yield path, word
        if word not in SCALARS and word in declaration().objects and word not in seen:
            yield from paths(declaration().objects[word], path, seen | {word})


def body_with(path: tuple[Any, ...], value: Any) -> Any:
    """A body that has `value` at this path and nothing else."""
    for part in reversed(path):
        value = [value] if part == 0 else {part: value}
    return value


def named(path: tuple[Any, ...]) -> str:
    return "".join("[0]" if part == 0 else f".{part}" for part in path).lstrip(".")


@pytest.mark.parametrize("call", sorted(declaration().calls))
def test_each_field_at_each_depth_takes_its_own_type_alone(call: str) -> None:
    looked_at = 0
    for path, word in paths(declaration().calls[call]):
        for value in wrong_values(word):
            looked_at += 1
            with pytest.raises(WrongType) as refused:
                checked(call, body_with(path, value))
            assert str(refused.value).startswith(named(path)), (path, word, value)
    assert looked_at > 0


@pytest.mark.parametrize(
    ("given", "taken"), [("2", 2), ("-1", -1), (2.0, 2), ("2.0", 2), ("3e2", 300), (str(2**63 - 1), 2**63 - 1)]
)
def test_a_number_that_comes_as_text_becomes_a_number_at_any_depth(given: Any, taken: int) -> None:
    body = {"timeout_seconds": given, "job_clusters": [{"new_cluster": {"autoscale": {"max_workers": given}}}]}
    assert checked("POST jobs/create", body) == {
        "timeout_seconds": taken,
        "job_clusters": [{"new_cluster": {"autoscale": {"max_workers": taken}}}],
    }


@pytest.mark.parametrize(
    "given", ["", " 2", "2 ", "0x2", "2.5", "1e400", "nan", "\u0662", "true", True, 10**40, "9" * 30, 2.5]
)
def test_what_is_no_whole_number_is_refused(given: Any) -> None:
    with pytest.raises(WrongType, match="max_concurrent_runs"):
        checked("POST jobs/create", {"max_concurrent_runs": given})


def test_a_flag_that_comes_as_text_is_refused() -> None:
    with pytest.raises(WrongType, match=r"queue.enabled must be true or false, not text \('true'\)"):
        checked("POST jobs/create", {"queue": {"enabled": "true"}})


def test_settings_of_spark_may_be_numbers_and_flags_and_are_text() -> None:
    conf = {"spark.sql.autoBroadcastJoinThreshold": -1, "spark.databricks.x": False, "spark.y": "z"}
    taken = checked("POST jobs/create", {"tasks": [{"new_cluster": {"spark_conf": conf}}]})
    assert taken["tasks"][0]["new_cluster"]["spark_conf"] == {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.databricks.x": "false",
        "spark.y": "z",
    }


def test_loops_without_end_are_refused() -> None:
    body: dict[str, Any] = {}
    for _ in range(200):
        body = {"for_each_task": {"task": body}}
    with pytest.raises(WrongType, match="nested too deep"):
        checked("POST jobs/create", {"tasks": [body]})


def test_a_job_with_a_wrong_type_anywhere_is_refused_and_jobs_are_listed_as_before(
    http: httpx.Client, ops: Any
) -> None:
    """Every field of a job and of its tasks, each with a value of each wrong type; then the official SDK reads all jobs."""
    made = http.post("/api/2.2/jobs/create", json={"name": "before", "tasks": [TASK]}).json()["job_id"]
    for above, declared in (
        ((), declaration().objects["jobs.JobSettings"]),
        (("tasks", 0), declaration().objects["jobs.Task"]),
    ):
        for name, word in declared.items():
            for value in wrong_values(word):
                body = {"name": "odd", **(body_with((name,), value) if not above else {})}
                if above:
                    body["tasks"] = [{**TASK, name: value}]
                for path, sent in (("create", body), ("reset", {"job_id": made, "new_settings": body})):
                    answer = http.post(f"/api/2.2/jobs/{path}", json=sent)
                    assert answer.status_code == 400, (path, name, value)
                    assert answer.json()["error_code"] == "MALFORMED_REQUEST", (name, value, answer.text)
                    assert name in answer.json()["message"]
    assert [(job.job_id, job.settings.name) for job in ops.jobs.list(expand_tasks=True)] == [(made, "before")]


def test_what_came_as_text_is_shown_as_a_number(api: Api, ops: Any) -> None:
    job_id = api.post(
        "create",
        name="n",
        max_concurrent_runs="2",
        timeout_seconds="600",
        health={"rules": [{"metric": "RUN_DURATION_SECONDS", "op": "GREATER_THAN", "value": "10"}]},
        job_clusters=[{"job_cluster_key": "c", "new_cluster": {"num_workers": "2"}}],
        tasks=[{**TASK, "max_retries": "-1", "min_retry_interval_millis": "5", "timeout_seconds": "7"}],
        trigger={"periodic": {"interval": "2", "unit": "HOURS"}},
    )["job_id"]
    settings = api.get("get", job_id=job_id)["settings"]
    assert (settings["max_concurrent_runs"], settings["timeout_seconds"]) == (2, 600)
    assert settings["health"]["rules"][0]["value"] == 10
    assert settings["job_clusters"][0]["new_cluster"]["num_workers"] == 2
    assert settings["trigger"]["periodic"]["interval"] == 2
    task = settings["tasks"][0]
    assert (task["max_retries"], task["min_retry_interval_millis"], task["timeout_seconds"]) == (-1, 5, 7)
    assert ops.jobs.get(job_id).settings.health.rules[0].value == 10


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "2.1/unity-catalog/catalogs", {"name": "c", "properties": {"a": 1}}),
        ("POST", "2.1/unity-catalog/catalogs", {"name": "c", "comment": ["x"]}),
        ("POST", "2.1/unity-catalog/schemas", {"name": "s", "catalog_name": "c", "comment": 1}),
        ("POST", "2.0/sql/statements", {"statement": "SELECT 1", "warehouse_id": "w", "parameters": {"a": 1}}),
        ("POST", "2.0/workspace/mkdirs", {"path": 1}),
        ("POST", "2.0/workspace/delete", {"path": "/Shared", "recursive": "true"}),
        ("POST", "2.0/workspace/import", {"path": "/Shared/x", "format": 1}),
        ("POST", "2.0/repos", {"url": 1}),
        ("PATCH", "2.1/unity-catalog/permissions/catalog/main", {"changes": [{"principal": 1}]}),
        ("POST", "2.2/jobs/run-now", {"job_id": [1]}),
        ("POST", "2.1/jobs/runs/repair", {"run_id": 1, "rerun_all_failed_tasks": "true"}),
        ("POST", "2.0/jobs/runs/submit", {"notebook_task": "x"}),
    ],
)
def test_other_calls_check_their_bodies_too(http: httpx.Client, method: str, path: str, body: dict[str, Any]) -> None:
    answer = http.request(method, f"/api/{path}", json=body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "MALFORMED_REQUEST"), answer.text
