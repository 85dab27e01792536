"""How a statement asks the API of its own workspace: for catalogs, volumes and grants, which are the server's."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from databricks_bridge.local.engine.errors import NotServedHere

CATALOG_API = "/api/2.1/unity-catalog/"
CA_FILE = "DATABRICKS_BRIDGE_CA_FILE"
_SECONDS = 60.0


class ApiRefused(Exception):
    """The API refuses. `code` is its error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"[{code}] {message}")
        self.code = code


@dataclass(frozen=True)
class WorkspaceApi:
    """The Unity Catalog API of one workspace."""

    host: str
    token: str = field(repr=False)
    ca_file: str | None = None

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any) -> dict[str, Any]:
        """The answer. Raises ApiRefused for an error of the API, NotServedHere where nobody answers.

        :param method: of HTTP
        :param path: below the API's own, in parts that are quoted already
        :param body: what is sent as JSON
        :param query: parameters of the address
        """
        address = f"{self.host}{CATALOG_API}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, headers, method=method)
        trust = ssl.create_default_context(cafile=self.ca_file) if self.host.startswith("https:") else None
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=trust) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except OSError as error:
            raise NotServedHere(
                f"The local workspace at {self.host} does not answer, so it serves no statement on catalogs, "
                f"volumes and grants: {error}"
            ) from error

    def listed(self, path: str, of: str, **query: Any) -> list[dict[str, Any]]:
        """All pages of a list."""
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {}
        while True:
            answer = self.call("GET", path, None, **query, **page)
            found += answer.get(of, [])
            if not answer.get("next_page_token"):
                return found
            page = {"page_token": answer["next_page_token"]}


def _refusal(error: urllib.error.HTTPError) -> ApiRefused:
    try:
        said = json.load(error)
        return ApiRefused(str(said["error_code"]), str(said["message"]))
    except (ValueError, KeyError, TypeError):
        return ApiRefused(f"HTTP_{error.code}", str(error.reason))


_OF_STATEMENT: ContextVar[WorkspaceApi | None] = ContextVar("workspace api of the statement", default=None)


def current() -> WorkspaceApi:
    """That of the statement that runs, else of the notebook of this process."""
    found = _OF_STATEMENT.get()
    if found is not None:
        return found
    return WorkspaceApi(
        os.environ.get("DATABRICKS_HOST", ""), os.environ.get("DATABRICKS_TOKEN", ""), os.environ.get(CA_FILE)
    )


@contextmanager
def asking(api: WorkspaceApi | None) -> Iterator[None]:
    """Statements within ask this workspace."""
    before = _OF_STATEMENT.set(api)
    try:
        yield
    finally:
        _OF_STATEMENT.reset(before)
