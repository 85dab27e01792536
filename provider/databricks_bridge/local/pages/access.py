"""From HTTP to a page and back, and who is let in: from this machine, by its address, signed in.

Every page and every button is made here, by `reading` and `acting`, so none can forget to ask. What changes something is
sent by a form of this site alone: its origin is that of the request, and it carries the value of its session.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlsplit

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.pages import session
from databricks_bridge.local.pages.asked import Asked, Goto, Page, Upload
from databricks_bridge.local.pages.document import document, headers, script, text
from databricks_bridge.local.pages.parts import address, button, link, said
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import ApiError

Show = Callable[[Asked], Page]
Act = Callable[[Asked], Awaitable[Page | Goto]]
Endpoint = Callable[[Request], Awaitable[Response]]
SIGN_IN = "/local/sign-in"
SECTIONS = (("Overview", "/"), *((name, f"/local/{name.lower()}") for name in ("Jobs", "Runs", "Tables", "Files")))
LARGEST_FORM_BYTES = 32 * 1024 * 1024
MOST_FIELDS = 2000
REFRESH_SECONDS = 5


def reading(workspace: Workspace, show: Show) -> Endpoint:
    """The endpoint of a page. `show` runs in a thread, for it reads files and the store."""

    async def endpoint(request: Request) -> Response:
        refusal = refused(request)
        if refusal is not None:
            return refusal
        cookie = signed_in(workspace, request)
        if cookie is None:
            here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return sent_on(f"{SIGN_IN}?next={quote(here, safe='')}")
        asked = Asked(workspace, session.form_value(workspace, cookie), request.path_params, dict(request.query_params))
        try:
            page = await run_in_threadpool(show, asked)
        except (ApiError, BridgeError, OSError) as error:
            page = _sorry(error)
        return rendered(workspace, page, asked.form_value)

    return endpoint


def acting(workspace: Workspace, act: Act) -> Endpoint:
    """The endpoint of a button or form. `act` runs on the event loop, and does in threads what takes long."""

    async def endpoint(request: Request) -> Response:
        refusal = refused(request) or foreign(request)
        if refusal is not None:
            return refusal
        cookie = signed_in(workspace, request)
        if cookie is None:
            more = "Sign in in another tab, come back here, and send the form again: nothing of it is lost."
            return turned_away("You are not signed in any more", f"<p>{more} {link(SIGN_IN, 'Sign in')}</p>")
        try:
            fields, uploads = await _form(request)
        except HTTPException as error:
            return turned_away("The form cannot be read", f"<p>{text(error.detail)}</p>", error.status_code)
        if not session.is_form_value(workspace, cookie, fields.pop("form_value", "")):
            return turned_away("Not from a page of this session", "<p>Load the page again and send the form anew.</p>")
        form_value = session.form_value(workspace, cookie)
        asked = Asked(workspace, form_value, request.path_params, dict(request.query_params), fields, uploads)
        try:
            answer = await act(asked)
        except (ApiError, BridgeError, OSError) as error:
            answer = _sorry(error)
        return sent_on(answer.path) if isinstance(answer, Goto) else rendered(workspace, answer, form_value)

    return endpoint


def refused(request: Request) -> Response | None:
    """None for who calls from this machine and by its address: a name that another site had resolve to it is not enough."""
    client = "" if request.client is None else request.client.host
    if _is_loopback(client) and _is_this_machine(request.headers.get("host", "")):
        return None
    return turned_away("Not here", "<p>Open it as 127.0.0.1 or localhost.</p>")


def foreign(request: Request) -> Response | None:
    """None for a form of this very site. Browsers say where a form comes from; who does not is no page of ours."""
    own = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
    if request.headers.get("origin") == own:
        return None
    return turned_away("From another site", f"<p>Only pages of {text(own)} may send this.</p>")


async def fields_of(request: Request) -> dict[str, str]:
    """The fields of a small form; empty where it is none."""
    try:
        return (await _form(request))[0]
    except HTTPException:
        return {}


def signed_in(workspace: Workspace, request: Request) -> str | None:
    """The cookie of a session that is good, else None."""
    cookie = request.cookies.get(session.cookie_name(workspace), "")
    return cookie if cookie and session.is_valid(workspace, cookie) else None


def sent_on(path: str) -> Response:
    return RedirectResponse(path, 303, dict(headers()))


def turned_away(title: str, more: str, status: int = 403) -> Response:
    """A refusal, for somebody who may be anybody: it shows nothing of the workspace."""
    return HTMLResponse(document(title, f"<h1>{text(title)}</h1>{more}", main="narrow"), status, dict(headers()))


def rendered(workspace: Workspace, page: Page, form_value: str) -> Response:
    """The whole page, with the navigation, and without what whoever reads it must not see."""
    head = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">' if page.live else ""
    title = f"{page.title} · {workspace.name} (local, not Databricks)"
    body = page.body + (script(page.script) if page.script else "")
    whole = document(title, body, head=head, top=_top(workspace, page.section, form_value))
    # Whoever passes a credential to a notebook does not want it here.
    for hosted in workspace.runs.workspaces.values():
        for secret in (hosted.credentials.token, hosted.credentials.client_secret):
            whole = whole.replace(secret, "(hidden)") if secret else whole
    return HTMLResponse(whole, page.status, dict(headers()))


def _top(workspace: Workspace, section: str, form_value: str) -> str:
    links = []
    for name, path in SECTIONS:
        here = ' aria-current="page"' if name == section else ""
        links.append(f'<a href="{path}"{here}>{name}</a>')
    out = button(form_value, address("local", "sign-out"), "Sign out", quiet=True)
    return (
        f'<header class="top"><div><b>{text(workspace.name)}</b><nav aria-label="Pages">{"".join(links)}</nav>{out}'
        "</div></header>"
    )


def _sorry(error: Exception) -> Page:
    status, message = 400, str(error)
    if isinstance(error, ApiError):
        status, message = error.status, error.message
    elif isinstance(error, OSError):
        message = f"A file or folder of that name cannot be used: {error.strerror or error}."
    title = "Not found" if status == 404 else "That does not work"
    return Page(title, f"<h1>{title}</h1>{said(message, 'bad')}", status=status)


async def _form(request: Request) -> tuple[dict[str, str], dict[str, Upload]]:
    """Fields and files; the last of several of one name. Raises HTTPException for what is no form, or too large."""
    length = request.headers.get("content-length", "")
    if not length.isascii() or not length.isdigit():
        raise HTTPException(411, "The length of the form is not said.")
    if int(length) > LARGEST_FORM_BYTES:
        raise HTTPException(413, f"The form is over {LARGEST_FORM_BYTES // 2**20} MiB.")
    fields: dict[str, str] = {}
    uploads: dict[str, Upload] = {}
    try:
        async with request.form(max_fields=MOST_FIELDS, max_files=10, max_part_size=LARGEST_FORM_BYTES) as sent:
            for name, value in sent.multi_items():
                if isinstance(value, UploadFile):
                    uploads[name] = Upload(value.filename or "", await value.read())
                else:
                    fields[name] = value
    except ApiError as error:
        raise HTTPException(error.status, error.message) from None
    except (ValueError, LookupError) as error:
        raise HTTPException(400, f"It is no form: {error}") from None
    return fields, uploads


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _is_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or _is_loopback(name)
