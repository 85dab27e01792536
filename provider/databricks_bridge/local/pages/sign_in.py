"""Signing in and out: by the workspace's token, or by a link that works once, which `databricks-bridge local links` makes."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from databricks_bridge.local.pages import access, session
from databricks_bridge.local.pages.asked import Asked, Goto
from databricks_bridge.local.pages.document import KEEP_RUN, document, headers, script, text
from databricks_bridge.local.pages.parts import said
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import InvalidParameterValue
from databricks_bridge.local.server.requests import read

_LINKS = "/local/sign-in-links"
_WRONG = "That is not the token of this workspace."
_SPENT = "This link has been used already, or is older than an hour. Make a new one:"


def router(workspace: Workspace) -> APIRouter:
    """`POST /local/sign-in-links` for who has the token, and `/local/sign-in` and `/local/sign-out` for browsers."""
    routes = APIRouter()

    @routes.post(_LINKS)
    async def links(request: Request) -> dict[str, object]:
        wanted = (await read(request)).text("next") or "/"
        if safe_path(wanted) != wanted:
            raise InvalidParameterValue(f"next is {wanted!r}; give a path of this workspace, such as /local/jobs")
        code = session.new_code(workspace)
        more = "" if wanted == "/" else f"&next={quote(wanted, safe='')}"
        return {
            "url": f"{workspace.host}{access.SIGN_IN}?code={code}{more}",
            "expires_in": session.CODE_SECONDS,
        }

    @routes.get(access.SIGN_IN)
    async def look(request: Request) -> Response:
        code, wanted = request.query_params.get("code"), safe_path(request.query_params.get("next", "/"))
        refusal = access.refused(request)
        if refusal is not None:
            return refusal
        if code is None:
            return _page(workspace, wanted)
        if session.spend_code(workspace, code):
            return _begun(workspace, wanted)
        if access.signed_in(workspace, request) is not None:
            return access.sent_on(wanted)
        return _page(workspace, wanted, _SPENT, 403)

    @routes.post(access.SIGN_IN)
    async def enter(request: Request) -> Response:
        refusal = access.refused(request) or access.foreign(request)
        if refusal is not None:
            return refusal
        fields = await access.fields_of(request)
        wanted = safe_path(fields.get("next", "/"))
        if not session.is_token(workspace, fields.get("token", "").strip()):
            return _page(workspace, wanted, _WRONG, 403)
        return _begun(workspace, wanted)

    leave = access.acting(workspace, _leave)

    @routes.post("/local/sign-out")
    async def out(request: Request) -> Response:
        cookie = access.signed_in(workspace, request)
        answer = await leave(request)
        if cookie is not None and answer.status_code == 303:
            session.end(workspace, cookie)
            answer.delete_cookie(session.cookie_name(workspace), path="/")
        return answer

    return routes


def safe_path(wanted: str) -> str:
    """`wanted` where it is a path on this site, else "/": no link leads from here to another one."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/"
    plain = wanted.isascii() and wanted.isprintable() and "\\" not in wanted and " " not in wanted
    rooted = wanted.startswith("/") and not wanted.startswith("//")
    return wanted if plain and rooted and not parts.scheme and not parts.netloc else "/"


async def _leave(asked: Asked) -> Goto:
    return Goto(access.SIGN_IN)


def _begun(workspace: Workspace, path: str) -> Response:
    """A new session, and on to `path`, so that a code is in no address that is kept."""
    answer = access.sent_on(path)
    answer.set_cookie(
        session.cookie_name(workspace),
        session.begin(workspace),
        max_age=session.SESSION_SECONDS,
        path="/",
        secure=workspace.host.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    return answer


def _page(workspace: Workspace, path: str, problem: str = "", status: int = 200) -> Response:
    invalid = ' aria-invalid="true"' if problem == _WRONG else ""
    body = (
        f"<h1>Sign in to {text(workspace.name)}</h1>"
        + (said(problem, "bad") if problem else "<p>A link that signs you in, once:</p>")
        + '<p><code>databricks-bridge local links</code></p><p class="soft">with the <code>--home</code> or '
        "<code>--file</code> that this deployment was started with. Or give the workspace's token, which is in "
        "<code>deployment.json</code> in its home.</p>"
        f'<form method="post" action="{access.SIGN_IN}"><input type="hidden" name="next" value="{text(path)}">'
        '<div class="row"><div><label for="token">Token of the workspace</label>'
        f'<input id="token" name="token" type="password" autocomplete="off" required{invalid}></div>'
        f"<button>Sign in</button></div></form>{script(KEEP_RUN)}"
    )
    page = document(f"Sign in to {workspace.name} (local, not Databricks)", body, main="narrow")
    return HTMLResponse(page, status, dict(headers()))
