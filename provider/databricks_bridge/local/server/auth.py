"""Who may call: a bearer token for each workspace, or one from its own OAuth token service."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server import federation
from databricks_bridge.local.server.errors import InvalidAccessToken, NoCredential, response
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.store import Store

OAUTH_SECONDS = 3600
FIRST_WORKSPACE_ID = 1001
OPEN_PATHS = frozenset({"/.well-known/databricks-config", "/local/health"})
OPEN_PREFIXES = (
    "/oidc/",
    "/local/results/",
    "/local/shared-files/",
    "/api/2.0/delta-sharing/",
    "/api/2.1/unity-catalog/public/",
)
"""The token service asks for its own credential, as the sharing server does; a link to a result or a file carries one."""


@dataclass(frozen=True)
class Credentials:
    """What opens one workspace. Kept in the store, so they are the same after a restart."""

    token: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)


def credentials_of(store: Store, workspace: str) -> tuple[str, Credentials]:
    """The id and the credentials of a workspace, made at its first start and kept."""
    with store.transaction() as db:
        row = db.execute("SELECT * FROM workspaces WHERE name = ?", (workspace,)).fetchone()
        if row is not None:
            return str(row["workspace_id"]), Credentials(row["token"], row["client_id"], row["client_secret"])
        workspace_id = store.next_id("workspace", FIRST_WORKSPACE_ID)
        made = Credentials(f"dapi{secrets.token_hex(16)}", str(uuid.uuid4()), f"dose{secrets.token_hex(16)}")
        values = (workspace, workspace_id, made.token, made.client_id, made.client_secret)
        db.execute("INSERT INTO workspaces VALUES (?, ?, ?, ?, ?)", values)
        return str(workspace_id), made


class Gate:
    """ASGI middleware: no request but those to OPEN_PATHS and OPEN_PREFIXES passes without a token of this workspace.

    Pages for browsers, `is_page`, have a sign-in of their own, which is good for nothing else.
    Every answer carries the workspace's id, where the official SDK looks for it, says that it is not Databricks, and has
    the time of the deployment's clock.
    """

    def __init__(self, app: ASGIApp, workspace: Workspace, is_page: Callable[[str], bool]) -> None:
        self._app = app
        self._workspace = workspace
        self._marks = [
            (b"x-databricks-org-id", workspace.workspace_id.encode()),
            (b"x-databricks-bridge", b"local workspace, not Databricks"),
        ]
        self._is_page = is_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = formatdate(self._workspace.now(), usegmt=True).encode()
                message["headers"] = [*message.get("headers", ()), *self._marks, (b"date", date)]
            await send(message)

        path: str = scope["path"]
        if path in OPEN_PATHS or path.startswith(OPEN_PREFIXES) or self._is_page(path):
            await self._app(scope, receive, send_marked)
            return
        sent = Request(scope).headers.get("authorization", "")
        scheme, _, token = sent.partition(" ")
        if scheme.lower() != "bearer" or not token:
            refusal = NoCredential("Credential was not sent or was of an unsupported type for this API.")
            await response(refusal)(scope, receive, send_marked)
        elif not _known(self._workspace, token.strip()):
            await response(InvalidAccessToken("Invalid access token."))(scope, receive, send_marked)
        else:
            await self._app(scope, receive, send_marked)


def router(workspace: Workspace) -> APIRouter:
    """Discovery, the OAuth token service (client credentials, token exchange), and who the caller is."""
    routes = APIRouter()

    @routes.get("/.well-known/databricks-config")
    async def discovery() -> dict[str, str]:
        return {"oidc_endpoint": f"{workspace.host}/oidc", "workspace_id": workspace.workspace_id}

    @routes.get("/oidc/.well-known/oauth-authorization-server")
    async def oauth_server() -> dict[str, object]:
        return {
            "issuer": f"{workspace.host}/oidc",
            "authorization_endpoint": f"{workspace.host}/oidc/v1/authorize",
            "token_endpoint": f"{workspace.host}/oidc/v1/token",
            "grant_types_supported": ["client_credentials", federation.GRANT],
        }

    @routes.post("/oidc/v1/token")
    async def token(request: Request) -> JSONResponse:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode(errors="replace")).items()}
        if form.get("grant_type") == federation.GRANT:
            try:
                federation.check_exchange(workspace, form)
            except federation.Refused as refusal:
                return _oauth_error(401 if refusal.error == "invalid_client" else 400, refusal.error, str(refusal))
            issued_as = {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
            return JSONResponse(_issued(workspace) | issued_as)
        if form.get("grant_type") != "client_credentials":
            return _oauth_error(400, "unsupported_grant_type", "client_credentials and token-exchange are served")
        client_id, client_secret = _client(request.headers.get("authorization", ""), form)
        known = workspace.credentials
        if not (_same(client_id, known.client_id) and _same(client_secret, known.client_secret)):
            return _oauth_error(401, "invalid_client", "Client authentication failed")
        return JSONResponse(_issued(workspace))

    @routes.get("/api/2.0/preview/scim/v2/Me")
    async def me() -> dict[str, object]:
        name = workspace.user_name
        return {"id": "1", "userName": name, "displayName": name, "active": True, "emails": [], "groups": []}

    return routes


def _known(workspace: Workspace, token: str) -> bool:
    if _same(token, workspace.credentials.token):
        return True
    rows = workspace.store.query(
        "SELECT expires_at FROM oauth_tokens WHERE digest = ? AND workspace = ?", (_digest(token), workspace.name)
    )
    return bool(rows) and workspace.now() < rows[0]["expires_at"]


def _issued(workspace: Workspace) -> dict[str, object]:
    token = _issue(workspace)
    return {"access_token": token, "token_type": "Bearer", "expires_in": OAUTH_SECONDS, "scope": "all-apis"}


def _issue(workspace: Workspace) -> str:
    token = secrets.token_urlsafe(32)
    with workspace.store.transaction() as db:
        db.execute("DELETE FROM oauth_tokens WHERE expires_at < ?", (workspace.now(),))
        db.execute(
            "INSERT INTO oauth_tokens VALUES (?, ?, ?)",
            (_digest(token), workspace.name, workspace.now() + OAUTH_SECONDS),
        )
    return token


def expire_tokens(workspace: Workspace) -> None:
    """End all OAuth tokens of the workspace; its personal access token stays."""
    with workspace.store.transaction() as db:
        db.execute("DELETE FROM oauth_tokens WHERE workspace = ?", (workspace.name,))


def _client(authorization: str, form: dict[str, str]) -> tuple[str, str]:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            client_id, _, secret = base64.b64decode(encoded).decode().partition(":")
        except ValueError:
            return "", ""
        return client_id, secret
    return form.get("client_id", ""), form.get("client_secret", "")


def _oauth_error(status: int, error: str, description: str) -> JSONResponse:
    return JSONResponse({"error": error, "error_description": description}, status_code=status)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(errors="replace"), right.encode())
