"""Microsoft Entra ID, the metadata service of an Azure machine, and a workspace that takes their tokens: all on this loop."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

# The application id of Azure Databricks, and Azure's management API, to which `azure-identity` adds `/.default`.
DATABRICKS = "2ff814a6-3304-4ab8-85cb-cd0e6f879c1d"
MANAGEMENT = "https://management.core.windows.net/"
TENANT = "11111111-2222-3333-4444-555555555555"
CLIENT_ID = "66666666-7777-8888-9999-aaaaaaaaaaaa"
SECRET = "Q~the-client-secret"
RESOURCE_ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Databricks/workspaces/w"


@dataclass
class Cloud:
    """`issued` maps each token to the resource that it is for. `assertion` is the federated token that is trusted.

    `hold` is awaited before each token is given out; `seconds` is what a token lives. Where it `repeats`, a refusal
    holds the secret that was sent, as the page of a gateway may.
    """

    issued: dict[str, str] = field(default_factory=dict)
    seconds: int = 3600
    assertion: str = ""
    repeats: bool = False
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[Mapping[str, str]] = field(default_factory=list)
    seen: list[Mapping[str, str]] = field(default_factory=list)
    authority: str = ""
    metadata: str = ""
    workspace_port: int = 0

    def __post_init__(self) -> None:
        self.hold.set()

    async def token(self, request: web.Request) -> web.Response:
        """`POST /{tenant}/oauth2/v2.0/token`, client credentials by secret or by a federated assertion."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append(form)
        await self.hold.wait()
        given = form.get("client_secret") or form.get("client_assertion") or ""
        wanted = SECRET if "client_secret" in form else self.assertion
        if request.match_info["tenant"] != TENANT:
            return _refusal(400, "invalid_request", f"AADSTS90002: Tenant '{request.match_info['tenant']}' not found.")
        if form.get("client_id") != CLIENT_ID:
            return _refusal(400, "unauthorized_client", "AADSTS700016: Application was not found in the directory.")
        if form.get("grant_type") != "client_credentials" or given != wanted:
            said = f"AADSTS7000215: Invalid client secret provided.{given if self.repeats else ''}"
            return _refusal(401, "invalid_client", said)
        resource = form.get("scope", "").removesuffix("/.default")
        if resource not in (DATABRICKS, MANAGEMENT):
            return _refusal(400, "invalid_scope", "AADSTS70011: The provided value for scope is not valid.")
        body = {"token_type": "Bearer", "expires_in": self.seconds, "access_token": self._issue(resource)}
        return web.json_response(body)

    async def instance(self, request: web.Request) -> web.Response:
        """`GET /metadata/instance` of a virtual machine."""
        if request.headers.get("Metadata") != "true":
            return web.Response(status=400)
        return web.json_response({"compute": {"azEnvironment": "AzurePublicCloud"}})

    async def machine_token(self, request: web.Request) -> web.Response:
        """`GET /metadata/identity/oauth2/token`: the identity that is assigned to the machine."""
        self.asked.append(dict(request.query))
        await self.hold.wait()
        if request.headers.get("Metadata") != "true" or request.query.get("client_id", CLIENT_ID) != CLIENT_ID:
            return web.json_response(
                {"error": "invalid_request", "error_description": "Identity not found"}, status=400
            )
        resource = request.query["resource"]
        now = int(time.time())
        body = {"token_type": "Bearer", "resource": resource, "access_token": self._issue(resource)}
        return web.json_response(body | {"expires_in": str(self.seconds), "expires_on": str(now + self.seconds)})

    async def job(self, request: web.Request) -> web.Response:
        """`jobs/get`, or who the caller is, of a workspace that knows nobody but by Entra's tokens."""
        self.seen.append(dict(request.headers))
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.issued.get(sent) != DATABRICKS:
            return web.json_response({"error_code": "UNAUTHENTICATED", "message": "no"}, status=401)
        resource_id = request.headers.get("X-Databricks-Azure-Workspace-Resource-Id")
        management = request.headers.get("X-Databricks-Azure-SP-Management-Token", "")
        if resource_id and self.issued.get(management) != MANAGEMENT:
            return web.json_response({"error_code": "PERMISSION_DENIED", "message": "no"}, status=403)
        return web.json_response({"job_id": 1})

    def _issue(self, resource: str) -> str:
        token = f"eyJ-{secrets.token_hex(8)}"
        self.issued[token] = resource
        return token


def _refusal(status: int, error: str, description: str) -> web.Response:
    return web.json_response({"error": error, "error_description": description}, status=status)


@asynccontextmanager
async def azure(server_file: Path) -> AsyncIterator[Cloud]:
    """The three of them on ports of 127.0.0.1; Entra ID with the key and certificate of `server_file`."""
    cloud = Cloud()
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(server_file)
    entra = [web.post("/{tenant}/oauth2/v2.0/token", cloud.token)]
    machine = [
        web.get("/metadata/instance", cloud.instance),
        web.get("/metadata/identity/oauth2/token", cloud.machine_token),
    ]
    workspace = [web.get("/api/2.2/jobs/get", cloud.job), web.get("/api/2.0/preview/scim/v2/Me", cloud.job)]
    runners = []
    try:
        ports = []
        for routes, context in ((entra, secure), (machine, None), (workspace, None)):
            app = web.Application()
            app.router.add_routes(routes)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            runners.append(runner)
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            ports.append(int(runner.addresses[0][1]))
        cloud.authority = f"127.0.0.1:{ports[0]}"
        cloud.metadata = f"http://127.0.0.1:{ports[1]}"
        cloud.workspace_port = ports[2]
        yield cloud
    finally:
        cloud.hold.set()
        for runner in runners:
            await runner.cleanup()
