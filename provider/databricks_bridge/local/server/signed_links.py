"""Links of this workspace that carry their own credential: signed, and good for some minutes.

They are fetched without an Authorization header, as those into the storage of a cloud are. The key of the signatures
lives until the next restart.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import ClassVar

from fastapi import Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import ApiError, InvalidParameterValue

LINK_SECONDS = 900
"""Databricks promises at most 15 minutes."""


class LinkRefused(ApiError):
    """403: the storage that a link leads to does not let it in."""

    status: ClassVar[int] = 403
    error_code: ClassVar[str] = "ACCESS_DENIED"


def signature_of(workspace: Workspace, what: str, expires: int) -> str:
    """What a link to `what` has to carry, with `expires` (seconds since the epoch), until which it opens."""
    signs = f"{workspace.name}/{what}/{expires}".encode(errors="replace")
    return hmac.new(workspace.sql.link_key, signs, hashlib.sha256).hexdigest()


def check(workspace: Workspace, request: Request, what: str, expires: int, signature: str) -> None:
    """Returns where the link opens `what`. Raises LinkRefused, and InvalidParameterValue for a header that must not be."""
    if "authorization" in request.headers:
        raise InvalidParameterValue("A link carries its own credential; fetch it without an Authorization header.")
    expected = signature_of(workspace, what, expires)
    if not hmac.compare_digest(signature.encode(errors="replace"), expected.encode()):
        raise LinkRefused("The signature of the link does not match.")
    if workspace.now() >= expires:
        raise LinkRefused("The link has expired; ask for a new one where it came from.")
