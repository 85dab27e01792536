"""The description as one OpenAPI document, and whether it agrees with the routes of the app."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from databricks_bridge.local.openapi import (
    access,
    catalog,
    compute,
    files,
    here,
    jobs,
    pages,
    repos,
    runs,
    sharing,
    sql,
)
from databricks_bridge.local.openapi.job_settings import task
from databricks_bridge.local.openapi.known import Known, known_in
from databricks_bridge.local.openapi.model import (
    CONTENT,
    JSON,
    Operation,
    Operations,
    Schema,
    anything,
    fields,
    flag,
    listing,
    ref,
    text,
    whole,
)
from databricks_bridge.local.ports import Workspace

_FAMILIES = (access, jobs, runs, sharing, catalog, files, repos, sql, compute, here, pages)
_CONVERTER = re.compile(r":\w+\}")
_PART = re.compile(r"\{(\w+)\}")
_ALSO = {
    "/api/2.0/sql/statements/": "/api/2.0/sql/statements",
    "/api/2.0/sql/warehouses/": "/api/2.0/sql/warehouses",
    "/api/2.0/repos//{repo_id}": "/api/2.0/repos/{repo_id}",
}
"""Addresses as some clients write them, and as they are described."""


def document(workspace: Workspace) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a workspace, with examples of what is in it."""
    known = known_in(workspace)
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in described().items():
        paths.setdefault(plain(path), {})[method.lower()] = _body_of(operation, method, plain(path), known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{workspace.name}: local workspace, not Databricks",
            "version": "1",
            "description": (
                "What a local stand-in for a Databricks workspace serves. Arguments of a GET may also come as a JSON body. "
                "Where GET is served for calls with JSON, HEAD may be too. What is not described here is answered 404."
            ),
        },
        "servers": [{"url": workspace.host}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "recipient": {"type": "http", "scheme": "bearer", "description": "The bearerToken of a profile file."},
            },
        },
    }


def described() -> Operations:
    """All operations, in an order in which their examples can be sent one after the other."""
    return {place: operation for family in _FAMILIES for place, operation in family.operations().items()}


def differences(served: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Of the served `(method, path)`: those that are not described, and what is described and not served."""
    here_too = {(method, path) for method, path in described()}
    there = {(method, _ALSO.get(path, path)) for method, path in served}
    # Starlette's own routes answer HEAD wherever they answer GET.
    missing = {(method, path) for method, path in there - here_too if method != "HEAD" or ("GET", path) not in here_too}
    return sorted(map(" ".join, missing)), sorted(map(" ".join, here_too - there))


def routes_of(route: Any) -> list[tuple[str, str]]:
    """`(method, path)` of a route, or of all routes below it."""
    inner = getattr(getattr(route, "original_router", route), "routes", None)
    if inner is not None:
        return [found for one in inner for found in routes_of(one)]
    return [(method, route.path) for method in route.methods]


def plain(path: str) -> str:
    """A route's path as OpenAPI writes it, without converters."""
    return _CONVERTER.sub("}", path)


def _body_of(operation: Operation, method: str, path: str, known: Known) -> dict[str, Any]:
    example = {name: value for name, value in operation.example(known).items() if value is not None}
    parts = _PART.findall(path)
    given = [_parameter("path", name, operation.path.get(name, text(minLength=1)), True, example) for name in parts]
    given += [
        _parameter("query", name, schema, name in operation.required, example)
        for name, schema in operation.query.items()
    ]
    taken = {*parts, *operation.query}
    body: dict[str, Any] = {
        "operationId": f"{method} {path}",
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": given,
        "responses": _answers(operation),
    }
    if operation.open or operation.tag == "pages":
        body["security"] = []
    elif operation.recipient:
        body["security"] = [{"recipient": []}]
    if operation.body is not None:
        rest = {name: value for name, value in example.items() if name not in taken}
        body["requestBody"] = _request_body(operation, operation.body, rest)
    return body


def _parameter(where: str, name: str, schema: Schema, required: bool, example: Mapping[str, Any]) -> dict[str, Any]:
    shown = {"example": example[name]} if name in example else {}
    return {"name": name, "in": where, "required": required, "schema": schema, **shown}


def _request_body(operation: Operation, properties: Mapping[str, Schema], example: Mapping[str, Any]) -> dict[str, Any]:
    if operation.takes == JSON or properties:
        schema = fields(*operation.required, **properties)
        shown = {"example": example} if set(operation.required) <= example.keys() and example else {}
    else:
        schema = text()
        shown = {"example": example[CONTENT]} if CONTENT in example else {}
    required = bool(operation.required) or operation.takes != JSON
    return {"required": required, "content": {operation.takes: {"schema": schema, **shown}}}


def _answers(operation: Operation) -> dict[str, Any]:
    """The answer that is a yes, and those that are a no: `4XX` with the API's own body."""
    good: dict[str, Any] = {"description": operation.summary}
    if operation.answer is not None:
        good["content"] = {operation.gives: {"schema": operation.answer}}
    no = ref("SharingError" if operation.recipient else "Error")
    failed = {"description": "No, in Databricks' words", "content": {JSON: {"schema": no}}}
    if operation.tag == "pages":
        failed = {"description": "No, as a page"}
        return {"200": good, "303": {"description": "Another page"}, "4XX": failed}
    return {str(operation.status): good, "4XX": failed}


def _schemas() -> dict[str, Schema]:
    milliseconds = whole()
    settings = fields("name", name=text(), tasks=listing(anything()), max_concurrent_runs=whole())
    state = fields("life_cycle_state", life_cycle_state=text(), result_state=text(), state_message=text())
    return {
        "Error": fields(error_code={"type": ["string", "integer"]}, message=text()),
        "SharingError": fields("errorCode", "message", errorCode=text(), message=text()),
        "Task": task(),
        "Job": fields(
            "job_id",
            "settings",
            "created_time",
            "creator_user_name",
            job_id=whole(1),
            settings=settings,
            created_time=milliseconds,
            creator_user_name=text(),
            next_page_token=text(),
            has_more=flag(),
        ),
        "Run": fields(
            "run_id",
            "job_id",
            "state",
            "status",
            "start_time",
            "run_page_url",
            run_id=whole(1),
            job_id=whole(1),
            run_name=text(),
            state=state,
            status=fields("state", state=text()),
            start_time=milliseconds,
            end_time=milliseconds,
            trigger=text(),
            run_page_url=text(),
            tasks=listing(fields("run_id", "task_key", run_id=whole(1), task_key=text())),
            job_parameters=listing(fields("name", "value", name=text(), value=text())),
        ),
        "Securable": fields(
            "name",
            "full_name",
            "owner",
            "metastore_id",
            name=text(),
            full_name=text(),
            owner=text(),
            metastore_id=text(),
        ),
    }
