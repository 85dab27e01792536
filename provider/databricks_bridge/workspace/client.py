"""One asynchronous client for one Databricks workspace: the calls we need, raw JSON in and out.

Answers are passed on as they came, so that an enum value newer than this code survives. The names of
paths and fields are those of Jobs API 2.2 and Unity Catalog API 2.1.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from databricks_bridge.core.errors import BadAnswer, InvalidArgument, JobNotFound, NotFound
from databricks_bridge.workspace.paging import pages

if TYPE_CHECKING:
    import aiohttp

Json = dict[str, Any]

log = logging.getLogger(__name__)

_JOBS = "/api/2.2/jobs"
_FILES = "/api/2.0/fs"
_CATALOG = "/api/2.1/unity-catalog"
_TOKEN_MAX = 64
RUNS_PAGE = 24
"""Runs on a page of `runs/list` at most: the API says "less than 25"."""
_JOBS_PAGE = 100
_PAGED_ARRAYS = ("tasks", "job_clusters", "environments", "parameters", "job_parameters", "repair_history")


def _now() -> datetime:
    return datetime.now(UTC)


class Workspace:
    """One workspace. Use it as `async with`, or call `close()`; it belongs to the event loop that first used it.

    `host` is a URL with scheme (and port, where there is one). `authorize` gives the headers for each try;
    `reauthorize`, after a refusal, rebuilds the credentials once per call. `budget_seconds` bounds one call with
    all its retries, `try_seconds` one try. `sleep`, `random`, `clock` (monotonic seconds) and `now` (aware
    datetime) are injected for tests. A `session` given here is not closed here; `on_close` is awaited by `close()`.

    Every call raises NotAuthenticated, NotPermitted, NotFound, BadAnswer or another WorkspaceError when the
    workspace says no, Throttled or another Unavailable when no usable answer came within the budget.
    """

    def __init__(
        self,
        host: str,
        authorize: Callable[[], Awaitable[dict[str, str]]],
        *,
        reauthorize: Callable[[], Awaitable[None]] | None = None,
        session: aiohttp.ClientSession | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _now,
        budget_seconds: float = 120.0,
        try_seconds: float = 30.0,
        proxy: str | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        from databricks_bridge.workspace.transport import Transport  # here, for it brings aiohttp

        self._transport = Transport(
            host,
            authorize,
            reauthorize=reauthorize,
            session=session,
            sleep=sleep,
            random=random,
            clock=clock,
            now=now,
            budget_seconds=budget_seconds,
            try_seconds=try_seconds,
            proxy=proxy,
        )
        self._on_close = on_close
        self._workspace_id: str | None = None

    def service_now(self) -> datetime | None:
        """The time by the workspace's own clock, from the `Date` of its last answer; None before one has told it."""
        return self._transport.service_now()

    @property
    def host(self) -> str:
        """The URL that this client calls, without a trailing slash."""
        return self._transport.host

    def __repr__(self) -> str:
        return f"Workspace({self.host!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the HTTP session (unless it was given) and what `on_close` holds. May be called twice."""
        await self._transport.close()
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            await on_close()

    def session(self) -> aiohttp.ClientSession:
        """The HTTP session of this workspace, shared in the process, for calls to storage. Closed with its last client."""
        return self._transport.session()

    def slots_of(self, store: str) -> asyncio.Semaphore:
        """The bound of calls to one store through `session()`: enter it around each.

        :param store: the bucket's name.
        """
        return self._transport.slots_of(store)

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Json:
        """GET of `path` (with its leading slash), `params` in the query string; None values are left out."""
        return await self._transport.call("GET", path, params=params)

    def pages(self, path: str, params: Mapping[str, Any]) -> AsyncIterator[Json]:
        """`get` of a listing, page after page as they are consumed: to its end, or to an error (`paging.pages`)."""
        return pages(partial(self.get, path), params)

    async def post(self, path: str, body: Mapping[str, Any], *, safe: bool) -> Json:
        """POST of `body`. Only a `safe` one, which does the same when it arrives twice, is tried again."""
        return await self._transport.call("POST", path, body=body, safe=safe)

    async def headers(self, path: str, params: Mapping[str, Any] | None = None) -> Mapping[str, str]:
        """The headers of a GET that was answered well, names in lower case: some APIs answer there."""
        return await self._transport.headers(path, params=params)

    async def file_names(self, folder: str) -> list[str]:
        """The names in a folder of a volume, `/Volumes/...` (Files API, every page), in no promised order."""
        names: dict[str, None] = {}
        async for page in self.pages(f"{_FILES}/directories{quote(folder)}", {}):
            names |= dict.fromkeys(str(one["name"]) for one in page.get("contents") or [])
        return list(names)

    async def read_file(self, path: str) -> bytes:
        """The whole of a file in a volume, `/Volumes/...` (Files API)."""
        return (await self.content(f"{_FILES}/files{quote(path)}"))[0]

    async def content(self, path: str) -> tuple[bytes, Mapping[str, str]]:
        """The body of a GET as it came, whatever its type, and its headers, their names in lower case."""
        return await self._transport.content(path)

    async def workspace_id(self) -> str:
        """The workspace's id, digits as text: from the `x-databricks-org-id` header that answers carry, else from
        `/.well-known/databricks-config`, else from the header of an answer that is asked for this alone. Cached.
        """
        if self._workspace_id is None:
            self._workspace_id = self._transport.org_id or await self._ask_workspace_id()
        return self._workspace_id

    async def _ask_workspace_id(self) -> str:
        try:
            config = await self.get("/.well-known/databricks-config")
        except (NotFound, BadAnswer):
            config = {}
        found = self._transport.org_id or str(config.get("workspace_id") or "")
        if not found:
            await self.get("/api/2.0/preview/scim/v2/Me")
            found = self._transport.org_id or ""
        if not found:
            raise BadAnswer(
                f"{self.host} tells its workspace id neither in x-databricks-org-id nor in "
                "/.well-known/databricks-config; is the host a workspace, and not an account console or a gateway "
                "that drops headers?"
            )
        return found

    async def get_job(
        self, job_id: int, *, include_trigger_state: bool = False, include_trigger_history: bool = False
    ) -> Json:
        """The job with all its tasks (`jobs/get`, every page)."""
        params = {
            "job_id": job_id,
            "include_trigger_state": include_trigger_state or None,
            "include_trigger_history": include_trigger_history or None,
        }
        job: Json = {}
        async for page in self.pages(f"{_JOBS}/get", params):
            if not job:
                job = page
            elif isinstance(settings := job.get("settings"), dict):
                _append_arrays(settings, page.get("settings") or {})
        job.pop("next_page_token", None)
        return job

    async def find_job(self, name: str) -> int:
        """The id of the one job that is called exactly `name`.

        Raises NotFound, or InvalidArgument naming the ids when several jobs have the name.
        """
        found: list[int] = []
        async for page in self.pages(f"{_JOBS}/list", {"name": name, "limit": _JOBS_PAGE}):
            # the server's own filter ignores case
            found += [int(job["job_id"]) for job in page.get("jobs", []) if job.get("settings", {}).get("name") == name]
        ids = sorted(set(found))
        if not ids:
            raise JobNotFound(
                f"no job called {name!r} in {self.host} is visible to this identity; check the name (a bundle deployed "
                "in development mode puts a prefix before it) and the permission CAN VIEW"
            )
        if len(ids) > 1:
            raise InvalidArgument(
                f"{len(ids)} jobs in {self.host} are called {name!r}: {', '.join(map(str, ids))}; give job_id instead"
            )
        return ids[0]

    async def run_now(
        self, job_id: int, *, job_parameters: Mapping[str, str], idempotency_token: str, queue: bool = True
    ) -> int:
        """Starts the job, or finds the run that this token has started before; its run id.

        The token is 1 to 64 characters and makes the call safe to try again (Jobs API, `idempotency_token`).
        """
        if not 1 <= len(idempotency_token) <= _TOKEN_MAX:
            raise InvalidArgument(
                f"idempotency_token for job {job_id} has {len(idempotency_token)} characters; the Jobs API takes 1 to "
                f"{_TOKEN_MAX}: hash it"
            )
        body: Json = {"job_id": job_id, "idempotency_token": idempotency_token, "queue": {"enabled": queue}}
        if job_parameters:
            body["job_parameters"] = dict(job_parameters)
        answer = await self.post(f"{_JOBS}/run-now", body, safe=True)
        if "run_id" not in answer:
            raise BadAnswer(
                f"run-now of job {job_id} in {self.host} answered without a run_id; a continuous job that is "
                "already running does that: look at its active run",
                status=200,
            )
        return int(answer["run_id"])

    async def get_run(self, run_id: int, *, include_resolved_values: bool = False) -> Json:
        """The run with all its tasks (`runs/get`, every page; a page is 100 tasks)."""
        params = {"run_id": run_id, "include_resolved_values": include_resolved_values or None}
        run: Json = {}
        async for page in self.pages(f"{_JOBS}/runs/get", params):
            if run:
                _append_arrays(run, page)
            else:
                run = page
        run.pop("next_page_token", None)
        return run

    async def list_runs(
        self,
        *,
        job_id: int | None = None,
        active_only: bool = False,
        completed_only: bool = False,
        start_time_from_ms: int | None = None,
        start_time_to_ms: int | None = None,
        expand_tasks: bool = False,
        page_size: int = RUNS_PAGE,
    ) -> AsyncIterator[Json]:
        """Runs, newest start first, page after page as they are consumed; each run once.

        `start_time_from_ms` and `start_time_to_ms` are inclusive, epoch milliseconds. There is no filter by what
        fired a run: look at its `trigger`. Stop iterating to stop paging.
        """
        if active_only and completed_only:
            raise InvalidArgument("list_runs: active_only and completed_only exclude each other; give one")
        params: dict[str, Any] = {
            "job_id": job_id,
            "active_only": active_only or None,
            "completed_only": completed_only or None,
            "start_time_from": start_time_from_ms,
            "start_time_to": start_time_to_ms,
            "expand_tasks": expand_tasks or None,
            "limit": page_size,
        }
        seen: set[int] = set()  # a run that starts between two pages shifts the others
        async for page in self.pages(f"{_JOBS}/runs/list", params):
            for run in page.get("runs") or []:
                if not _is_run(run):
                    log.warning("%s lists a run without run_id or start_time; it is left out: %.300r", self.host, run)
                elif run["run_id"] not in seen:
                    seen.add(run["run_id"])
                    yield run

    async def cancel_run(self, run_id: int) -> None:
        """Asks for the run to be cancelled; it ends some time later. Asking twice does no harm."""
        await self.post(f"{_JOBS}/runs/cancel", {"run_id": run_id}, safe=True)

    async def get_run_output(self, task_run_id: int) -> Json:
        """Output, error and error trace of one *task* run (the id in `tasks[].run_id`, not the job run's)."""
        return await self.get(f"{_JOBS}/runs/get-output", {"run_id": task_run_id})

    async def get_table(self, full_name: str) -> Json:
        """The table's entry in Unity Catalog (`catalog.schema.table`)."""
        return await self.get(f"{_CATALOG}/tables/{quote(full_name, safe='')}")

    async def find_warehouse(self, name: str) -> str:
        """The id of the one SQL warehouse that is called exactly `name`.

        Raises NotFound, or InvalidArgument naming the ids when several have the name (`sql/warehouses`).
        """
        answer = await self.get("/api/2.0/sql/warehouses")
        ids = sorted(str(one["id"]) for one in answer.get("warehouses") or [] if one.get("name") == name)
        if not ids:
            raise NotFound(
                f"no SQL warehouse called {name!r} in {self.host} is visible to this identity; check the name and the "
                "permission CAN USE"
            )
        if len(ids) > 1:
            raise InvalidArgument(
                f"{len(ids)} SQL warehouses in {self.host} are called {name!r}: {', '.join(ids)}; give the id instead"
            )
        return ids[0]

    async def temporary_table_credentials(self, table_id: str) -> Json:
        """Storage credentials to read one table, with their `expiration_time` in epoch milliseconds.

        Needs `external_access_enabled` on the metastore and EXTERNAL USE SCHEMA on the schema.
        """
        body = {"table_id": table_id, "operation": "READ"}
        return await self.post("/api/2.0/unity-catalog/temporary-table-credentials", body, safe=True)


def _is_run(value: Any) -> bool:
    """Whether this can be told from other runs, and be placed among them."""
    return isinstance(value, dict) and all(isinstance(value.get(name), int) for name in ("run_id", "start_time"))


def _append_arrays(into: Json, page: Json) -> None:
    """Adds a further page's arrays. Pages are in no promised order, so an item that came before is not doubled."""
    for name in _PAGED_ARRAYS:
        for item in page.get(name) or []:
            if item not in into.setdefault(name, []):
                into[name].append(item)
