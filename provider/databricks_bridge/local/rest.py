"""Calls of a workspace's REST API by code of this package, over HTTP like any other client's."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from databricks_bridge.core.errors import Unavailable, WorkspaceError

Json = dict[str, Any]


@dataclass(frozen=True)
class Rest:
    """A workspace and the token for it. Every call raises WorkspaceError for a no, Unavailable for no answer.

    `ca_file` is the one authority by which an https host is trusted; the usual ones unless given.
    """

    name: str
    host: str
    token: str = field(repr=False)
    ca_file: Path | None = None

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any) -> Json:
        """One call with JSON both ways, such as `call("GET", "/api/2.2/jobs/list")`."""
        answer = self._send(method, path, json=None if body is None else dict(body), params=query)
        return dict(answer.json()) if answer.content else {}

    def make(self, path: str, body: Mapping[str, Any]) -> None:
        """A POST that makes something; that it is there already is right."""
        try:
            self.call("POST", path, body)
        except WorkspaceError as error:
            if not str(error.error_code).endswith("ALREADY_EXISTS"):
                raise

    def notebook(self, path: str, source: str) -> None:
        """Put a notebook, in Databricks' source format, at `path`."""
        self._import(path, source.encode(), {"format": "SOURCE", "language": "PYTHON"})

    def notebook_file(self, path: str, file: Path) -> None:
        """Put a notebook at `path`: Databricks' source format, or Jupyter's for a file that ends in .ipynb."""
        kind = {"format": "JUPYTER"} if file.suffix == ".ipynb" else {"format": "SOURCE", "language": "PYTHON"}
        if file.suffix == ".sql":
            kind["language"] = "SQL"
        self._import(path, file.read_bytes(), kind)

    def _import(self, path: str, content: bytes, kind: Mapping[str, str]) -> None:
        self.call("POST", "/api/2.0/workspace/mkdirs", {"path": path.rpartition("/")[0] or "/"})
        body = {"path": path, "content": base64.b64encode(content).decode(), "overwrite": True}
        self.call("POST", "/api/2.0/workspace/import", body | dict(kind))

    def workspace_file(self, path: str, file: Path) -> None:
        """Put a file that is no notebook at `path`."""
        self.call("POST", "/api/2.0/workspace/mkdirs", {"path": path.rpartition("/")[0] or "/"})
        target = f"/api/2.0/workspace-files/import-file/{quote(path.lstrip('/'))}"
        self._send("POST", target, content=file.read_bytes(), params={"overwrite": "true"})

    def job_id(self, name: str) -> int | None:
        """The id of the oldest job of that exact name."""
        jobs = self.call("GET", "/api/2.2/jobs/list", name=name).get("jobs", [])
        return min((int(job["job_id"]) for job in jobs), default=None)

    def put_job(self, settings: Mapping[str, Any]) -> int:
        """Make a job, or set the one of that name anew when it differs; its id."""
        found = self.job_id(str(settings["name"]))
        if found is None:
            return int(self.call("POST", "/api/2.2/jobs/create", settings)["job_id"])
        self.call("POST", "/api/2.2/jobs/reset", {"job_id": found, "new_settings": dict(settings)})
        return found

    def upload(self, path: str, file: Path, *, overwrite: bool) -> bool:
        """Put a file into a volume; False when there is one of that name and it is kept."""
        query = {"overwrite": "true" if overwrite else "false"}
        try:
            self._send("PUT", f"/api/2.0/fs/files{quote(path)}", content=file.read_bytes(), params=query)
        except WorkspaceError as error:
            if error.status == 409 and not overwrite:
                return False
            raise
        return True

    def _send(self, method: str, path: str, **request: Any) -> Any:
        import httpx

        headers = {"Authorization": f"Bearer {self.token}"}
        verify = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True
        try:
            # trust_env: a proxy of the environment is not for this machine's own addresses.
            answer = httpx.request(
                method, self.host + path, headers=headers, timeout=60, trust_env=False, verify=verify, **request
            )
        except httpx.TransportError as error:
            raise Unavailable(f"the workspace {self.name} at {self.host} gave no answer: {error}") from error
        if answer.is_error:
            raise WorkspaceError(
                f"the workspace {self.name} answered {answer.status_code} to {method} {path}: {_said(answer)}",
                status=answer.status_code,
                error_code=_code(answer),
            )
        return answer


def _body(answer: Any) -> Json:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _code(answer: Any) -> str | None:
    return _body(answer).get("error_code")


def _said(answer: Any) -> str:
    return str(_body(answer).get("message") or answer.text[:200])
