"""Who has signed in: a signed cookie, the value that its forms carry, and codes that sign in once.

Everything is derived from the workspace's token or kept as a digest in the store, so a restart signs nobody out. A session
is a row of the store with its end: signing out deletes it, another token of the workspace makes every cookie void. The
cookie opens pages alone; the REST API wants the token itself.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from databricks_bridge.local.ports import Workspace

SESSION_SECONDS = 12 * 3600
CODE_SECONDS = 3600


def cookie_name(workspace: Workspace) -> str:
    """Browsers keep one set of cookies for all ports of a host, and the first workspace of every deployment has the same id."""
    return f"databricks_bridge_{workspace.workspace_id}_{_mac(workspace, 'name', '')[:8]}"


def begin(workspace: Workspace) -> str:
    """The cookie of a new session, which is in the store from now on."""
    ends = int(workspace.now()) + SESSION_SECONDS
    open_part = f"{ends}.{secrets.token_urlsafe(16)}"
    cookie = f"{open_part}.{_mac(workspace, 'session', open_part)}"
    with workspace.store.transaction() as db:
        _forget_expired(workspace)
        db.execute("INSERT INTO meta VALUES (?, ?)", (_row(workspace, cookie, "session"), ends))
    return cookie


def end(workspace: Workspace, cookie: str) -> None:
    """Sign out: the cookie opens nothing any more, wherever a copy of it is."""
    with workspace.store.transaction() as db:
        db.execute("DELETE FROM meta WHERE key = ?", (_row(workspace, cookie, "session"),))


def is_valid(workspace: Workspace, cookie: str) -> bool:
    """Whether this workspace gave out the cookie, under its present token, and its session has not ended."""
    open_part, _, mac = cookie.rpartition(".")
    if not _same(mac, _mac(workspace, "session", open_part)):
        return False
    rows = workspace.store.query("SELECT value FROM meta WHERE key = ?", (_row(workspace, cookie, "session"),))
    return bool(rows) and workspace.now() < int(rows[0]["value"])


def form_value(workspace: Workspace, cookie: str) -> str:
    """What a form of this session has to send back: no other site can know it."""
    return _mac(workspace, "form", cookie)


def is_form_value(workspace: Workspace, cookie: str, sent: str) -> bool:
    return _same(sent, form_value(workspace, cookie))


def is_token(workspace: Workspace, sent: str) -> bool:
    """Whether this is the workspace's own token."""
    return _same(sent, workspace.credentials.token)


def new_code(workspace: Workspace) -> str:
    """A code that signs in once, within CODE_SECONDS."""
    code = secrets.token_urlsafe(24)
    with workspace.store.transaction() as db:
        _forget_expired(workspace)
        db.execute(
            "INSERT INTO meta VALUES (?, ?)", (_row(workspace, code, "sign-in"), int(workspace.now()) + CODE_SECONDS)
        )
    return code


def spend_code(workspace: Workspace, code: str) -> bool:
    """Use up a code; False for one that is spent, expired, or was never given out."""
    with workspace.store.transaction() as db:
        _forget_expired(workspace)
        return db.execute("DELETE FROM meta WHERE key = ?", (_row(workspace, code, "sign-in"),)).rowcount == 1


def _forget_expired(workspace: Workspace) -> None:
    with workspace.store.transaction() as db:
        over = "DELETE FROM meta WHERE (key LIKE 'sign-in:%' OR key LIKE 'session:%') AND value <= ?"
        db.execute(over, (int(workspace.now()),))


def _row(workspace: Workspace, secret: str, kind: str) -> str:
    return f"{kind}:{workspace.name}:{hashlib.sha256(secret.encode(errors='replace')).hexdigest()}"


def _mac(workspace: Workspace, purpose: str, message: str) -> str:
    said = f"pages:{purpose}:{workspace.workspace_id}:{message}"
    key = workspace.credentials.token.encode()
    return hmac.new(key, said.encode(errors="replace"), "sha256").hexdigest()


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(errors="replace"), right.encode(errors="replace"))
