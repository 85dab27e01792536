"""A certificate that is not trusted is no passing fault: one try, and an error that says why and what to do."""

from __future__ import annotations

import asyncio
import ssl
import time as clock
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import aiohttp
import pytest
import trustme
from aiohttp import web

from databricks_bridge.core.errors import BadAnswer, Unavailable
from databricks_bridge.workspace.client import Workspace
from databricks_bridge.workspace.transport import certificate_reason

from .conftest import Login, Time

AUTHORITY = trustme.CA()


@asynccontextmanager
async def serving(certificate: trustme.LeafCert) -> AsyncIterator[str]:
    """The host of a server that shows this certificate."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client(host: str, login: Login, time: Time, trusted: trustme.CA | None) -> AsyncIterator[Workspace]:
    context = ssl.create_default_context()
    if trusted is not None:
        trusted.configure_trust(context)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        Workspace(
            host, login.headers, reauthorize=login.rebuild, session=session, sleep=time.sleep, clock=time.clock
        ) as workspace,
    ):
        yield workspace


async def test_a_server_whose_authority_is_trusted(login: Login, time: Time) -> None:
    async with (
        serving(AUTHORITY.issue_cert("127.0.0.1")) as host,
        client(host, login, time, AUTHORITY) as workspace,
    ):
        assert await workspace.get("/x") == {"ok": True}


@pytest.mark.parametrize(
    ("certificate", "trusted", "why"),
    [
        (AUTHORITY.issue_cert("127.0.0.1"), None, "unable to get local issuer certificate"),
        (AUTHORITY.issue_cert("127.0.0.1"), trustme.CA(), "unable to get local issuer certificate"),
        (
            AUTHORITY.issue_cert("127.0.0.2"),
            AUTHORITY,
            "IP address mismatch, certificate is not valid for '127.0.0.1'.",
        ),
        (AUTHORITY.issue_cert("127.0.0.1", not_after=datetime(2020, 1, 1)), AUTHORITY, "certificate has expired"),
    ],
)
async def test_one_that_is_not_trusted_is_asked_once(
    login: Login, time: Time, certificate: trustme.LeafCert, trusted: trustme.CA | None, why: str
) -> None:
    async with serving(certificate) as host, client(host, login, time, trusted) as workspace:
        with pytest.raises(BadAnswer) as caught:
            await workspace.get("/x")
    assert str(caught.value).startswith(f"GET /x at {host}: the server's certificate is not trusted ({why}); name")
    assert (time.pauses, login.rebuilt) == ([], 0)


async def test_https_to_a_server_that_speaks_none_is_tried_again(login: Login, time: Time) -> None:
    """It may be starting behind a gateway; the error says what was wrong."""
    server = await asyncio.start_server(
        lambda reader, writer: writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "127.0.0.1", 0
    )
    async with (
        server,
        client(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", login, time, None) as workspace,
    ):
        with pytest.raises(Unavailable, match=r"ClientConnectorSSLError.*gave up after"):
            await workspace.get("/x")
    assert len(time.pauses) > 3


async def test_a_login_that_takes_too_long_ends_the_try(time: Time) -> None:
    async def never() -> dict[str, str]:
        await asyncio.Event().wait()
        return {}

    started = clock.monotonic()
    async with Workspace(
        "http://127.0.0.1:1", never, sleep=time.sleep, clock=time.clock, budget_seconds=0.5
    ) as workspace:
        with pytest.raises(Unavailable, match="no credentials in 1 s"):
            await workspace.get("/x")
    assert clock.monotonic() - started < 10


def test_the_reason_is_what_tls_says() -> None:
    said = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
    assert certificate_reason(ssl.SSLCertVerificationError(1, said)) == "self-signed certificate"
    assert certificate_reason(ValueError("odd")) == "odd"
