"""What the tests of logins share: trust in a CA, a workspace on port 443 of a loopback address, tokens of another issuer."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp.connector
import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.rest import Rest
from databricks_bridge.local.workspace_spec import WorkspaceSpec
from tests.local.local_kit import Notebooks

# Of this process alone, since another worker's deployment may have port 443 of its own.
ADDRESS = f"127.53.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
LONGEST_BLOCK_SECONDS = 1.5
"""What the event loop may stand still for on a busy machine. A blocking call to a server on the same loop takes for ever."""


def trust(ca_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that began with these variables: aiohttp reads SSL_CERT_FILE once, when it is imported."""
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(ca_file))
    context = ssl.create_default_context(cafile=str(ca_file))
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", context)


def skip_without_port_443() -> None:
    """The official hook asks for Databricks' own tokens at https and port 443 of the host, whatever the connection says."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, 443))
        except OSError as error:
            pytest.skip(f"no right to bind {ADDRESS}:443, where the official hook asks for a token: {error.strerror}")


@dataclass
class Clock:
    """Real time, and so many seconds more."""

    ahead: float = 0.0

    def time(self) -> float:
        return time.time() + self.ahead

    def rules(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The official hook looks at this clock."""
        from airflow.providers.databricks.hooks import databricks_base

        monkeypatch.setattr(databricks_base, "time", SimpleNamespace(time=self.time))


@dataclass(frozen=True)
class Site:
    """The workspace ops, with TLS on port 443."""

    up: Deployment
    clock: Clock

    @property
    def rest(self) -> Rest:
        return Rest("ops", self.up.host("ops"), self.up.token("ops"), self.up.ca_file)

    @property
    def client_id(self) -> str:
        return self.up.workspaces["ops"].credentials.client_id

    @property
    def client_secret(self) -> str:
        return self.up.workspaces["ops"].credentials.client_secret

    def issued(self) -> int:
        """How many tokens the token service has given out that have not been made to expire."""
        rows = self.up.workspaces["ops"].store.query("SELECT count(*) AS n FROM oauth_tokens")
        return int(rows[0]["n"])

    def expire_tokens(self) -> None:
        self.rest.call("POST", "/local/faults", {"kind": "expire_tokens"})

    def connect(self, monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], **fields: Any) -> None:
        """The Airflow connection `ops`."""
        body = {"conn_type": "databricks", "host": ADDRESS, "extra": json.dumps(extra), **fields}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(body))


@contextmanager
def site_on_port_443(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    skip_without_port_443()
    clock = Clock()
    clock.rules(monkeypatch)
    spec = WorkspaceSpec("ops", port=443, address=ADDRESS)
    engine = InstantEngine(Notebooks().run)
    with deployment_in_thread(home, [spec], engine=engine, now=clock.time, tls=True) as up:
        assert up.ca_file is not None
        trust(up.ca_file, monkeypatch)
        yield Site(up, clock)


@dataclass
class Issuer:
    """Signs tokens, as a cluster or a CI system does for what runs on it."""

    url: str = "https://issuer.example.test"
    key: Any = field(default_factory=lambda: _new_key())

    def token(self, *, seconds: float = 600, now: float | None = None, **claims: Any) -> str:
        import jwt

        body = {"iss": self.url, "sub": "system:serviceaccount:etl:bridge", "aud": "databricks"} | claims
        return jwt.encode(body | {"exp": int((now or time.time()) + seconds)}, self.key, algorithm="ES256")

    def policy(self, **changes: Any) -> dict[str, Any]:
        import jwt

        key = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return {
            "issuer": self.url,
            "subject": "system:serviceaccount:etl:bridge",
            "audiences": ["databricks"],
            "jwks_json": json.dumps({"keys": [key]}),
        } | changes


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


@asynccontextmanager
async def unblocked() -> AsyncIterator[None]:
    """Fails where what is inside has kept the event loop from everything else."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    beating = asyncio.create_task(beat())
    try:
        yield
        await asyncio.sleep(0.02)
    finally:
        beating.cancel()
    assert longest < LONGEST_BLOCK_SECONDS
