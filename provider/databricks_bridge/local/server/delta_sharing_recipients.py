"""Recipients of open sharing (Unity Catalog's recipients API): each metastore that reads a share of this one, by its name.

A recipient is given a link to a profile file, which opens once and makes the bearer token; the store keeps only what it
takes to know the token again. To rotate it is how one more profile is had. Recipients come and go with their shares.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import ApiError, InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.responses import JSONResponse

PREFIX = "/api/2.0/delta-sharing/metastores/"
ACTIVATION = "/api/2.1/unity-catalog/public/data_sharing_activation"
TOKEN_SECONDS = 365 * 86400
"""The longest that Databricks gives a recipient's token."""
_ALL = "SELECT * FROM recipient_tokens WHERE provider = ? AND recipient = ? ORDER BY number"
Body = dict[str, Any]


class Unauthenticated(ApiError):
    """401: no token of a recipient, or one that has expired."""

    status, error_code = 401, "UNAUTHENTICATED"


def router(workspace: Workspace) -> APIRouter:
    """List and get recipients, rotate a token, and the link to a profile."""
    routes = APIRouter(prefix="/api/2.1/unity-catalog")
    with workspace.store.transaction() as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS recipient_tokens (number INTEGER PRIMARY KEY, id TEXT, provider TEXT, "
            "recipient TEXT, code TEXT, digest TEXT, created_at REAL, expires_at REAL)"
        )

    @routes.get("/recipients")
    async def listing() -> Body:
        names = await run_in_threadpool(_names, workspace)
        return {"recipients": [_shown(workspace, name) for name in names]}

    @routes.get("/recipients/{name}")
    async def get(name: str) -> Body:
        return _shown(workspace, _existing(workspace, name))

    @routes.post("/recipients/{name}/rotate-token")
    async def rotate(request: Request, name: str) -> Body:
        return _rotated(workspace, await read(request), _existing(workspace, name))

    @routes.get("/public/data_sharing_activation/{rest:path}")
    async def activate(rest: str) -> JSONResponse:
        return JSONResponse(_profile(workspace, rest.rpartition("/")[2]), headers={"Cache-Control": "no-store"})

    return routes


def recipient_of(workspace: Workspace, authorization: str) -> str:
    """The recipient whose token this Authorization header carries. Raises Unauthenticated."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("The request has no bearer token; the profile file has it.")
    rows = workspace.store.query(
        "SELECT recipient, expires_at FROM recipient_tokens WHERE provider = ? AND digest = ?",
        (workspace.metastore, _digest(token.strip())),
    )
    if not rows:
        raise Unauthenticated("The bearer token is not one of a recipient of this metastore.")
    if workspace.now() >= rows[0]["expires_at"]:
        raise Unauthenticated("The bearer token has expired; ask the provider for a new profile.")
    return str(rows[0]["recipient"])


def _names(workspace: Workspace) -> list[str]:
    given = workspace.shares.given_by(workspace.metastore)
    return sorted({share.metastore for shares in given.values() for share in shares})


def _existing(workspace: Workspace, name: str) -> str:
    if name.lower() not in _names(workspace):
        raise ResourceDoesNotExist(
            f"Recipient '{name}' does not exist: no share of {workspace.metastore} is read there."
        )
    return name.lower()


def _shown(workspace: Workspace, name: str) -> Body:
    """As `RecipientInfo` has it; a first token is made at the first look."""
    with workspace.store.transaction() as db:
        rows = db.execute(_ALL, (workspace.metastore, name)).fetchall()
        if not rows:
            _add(workspace, name)
            rows = db.execute(_ALL, (workspace.metastore, name)).fetchall()
    who = workspace.user_name
    tokens = [
        {
            "id": row["id"],
            "created_at": round(row["created_at"] * 1000),
            "created_by": who,
            "expiration_time": round(row["expires_at"] * 1000),
            **({} if row["code"] is None else {"activation_url": f"{workspace.host}{ACTIVATION}/{row['code']}"}),
        }
        for row in rows
        if workspace.now() < row["expires_at"]
    ]
    return {
        "name": name,
        "authentication_type": "TOKEN",
        "owner": who,
        "created_by": who,
        "created_at": round(rows[0]["created_at"] * 1000),
        "metastore_id": workspace.metastore_id,
        "activated": any(row["digest"] for row in rows),
        "tokens": tokens,
    }


def _rotated(workspace: Workspace, given: Arguments, name: str) -> Body:
    seconds = given.integer("existing_token_expire_in_seconds")
    if seconds < 0:
        raise InvalidParameterValue("existing_token_expire_in_seconds must not be negative")
    with workspace.store.transaction() as db:
        db.execute(
            "UPDATE recipient_tokens SET expires_at = min(expires_at, ?) WHERE provider = ? AND recipient = ?",
            (workspace.now() + seconds, workspace.metastore, name),
        )
        _add(workspace, name)
    return _shown(workspace, name)


def _add(workspace: Workspace, name: str) -> None:
    with workspace.store.transaction() as db:
        number, now = workspace.store.next_id("recipient_token", 1), workspace.now()
        code = secrets.token_urlsafe(24)
        row = (number, str(uuid.uuid4()), workspace.metastore, name, code, None, now, now + TOKEN_SECONDS)
        db.execute("INSERT INTO recipient_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _profile(workspace: Workspace, code: str) -> Body:
    """The content of a profile file, with a token that is told here and nowhere else."""
    token = f"dsr{secrets.token_hex(24)}"
    with workspace.store.transaction() as db:
        found = db.execute(
            "SELECT number, expires_at FROM recipient_tokens WHERE provider = ? AND code = ? AND expires_at > ?",
            (workspace.metastore, code, workspace.now()),
        ).fetchone()
        if found is None:
            raise ResourceDoesNotExist(
                "The activation link is not known, has been used or has expired; rotate the token."
            )
        db.execute(
            "UPDATE recipient_tokens SET code = NULL, digest = ? WHERE number = ?", (_digest(token), found["number"])
        )
    until = datetime.fromtimestamp(found["expires_at"], UTC)
    return {
        "shareCredentialsVersion": 1,
        "bearerToken": token,
        "endpoint": f"{workspace.host}{PREFIX}{workspace.metastore_id}",
        "expirationTime": until.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    }


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
