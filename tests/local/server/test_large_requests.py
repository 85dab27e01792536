"""What is too large or too slow is refused before it fills the memory, whoever sends it: T41."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.server import bodies, connections
from tests.local.local_kit import Notebooks, eventually

MIB = 2**20
CHUNK = b"x" * MIB
ALL = 100


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("large") / "home"
    with deployment_in_thread(home, ["ops"], engine=InstantEngine(Notebooks().run)) as deployment:
        yield deployment


def opened(up: Deployment) -> socket.socket:
    where = urlsplit(up.host("ops"))
    assert where.hostname
    assert where.port
    return socket.create_connection((where.hostname, where.port), timeout=20)


def head(up: Deployment, method: str, path: str, *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {up.host('ops').removeprefix('http://')}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def told(peer: socket.socket) -> bytes:
    """All that the server says before it hangs up."""
    heard = b""
    try:
        while more := peer.recv(65536):
            heard += more
    except ConnectionError:
        pass
    return heard


def streamed(up: Deployment, method: str, path: str, *more: str, pieces: int = ALL) -> tuple[int, bytes]:
    """Send a body of `pieces` MiB in chunks; how many were sent when the server had heard enough, and what it says."""
    with opened(up) as peer:
        peer.sendall(head(up, method, path, "Transfer-Encoding: chunked", *more))
        sent = 0
        try:
            for _ in range(pieces):
                peer.sendall(b"%x\r\n%s\r\n" % (MIB, CHUNK))
                sent += 1
        except ConnectionError:
            pass
        return sent, told(peer) if sent < pieces else b""


def peak_mib() -> int:
    """The most memory that this process, which hosts the deployment, has had since `reset`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def reset() -> None:
    Path("/proc/self/clear_refs").write_text("5")


OPEN = [
    ("POST", "/oidc/v1/token"),
    ("POST", "/local/sign-in"),
    ("POST", "/api/2.0/delta-sharing/shares/s/schemas/s/tables/t/query"),
    ("POST", "/api/2.1/unity-catalog/public/data_sharing_activation/x"),
    ("POST", "/local/health"),
    ("POST", "/api/2.2/jobs/create"),
    ("GET", "/api/2.2/jobs/list"),
    ("PUT", "/api/2.0/fs/files/Volumes/main/s/v/f"),
    ("POST", "/no/such/path"),
]
KNOWN = [
    ("POST", "/api/2.2/jobs/create"),
    ("GET", "/api/2.2/jobs/list"),
    ("POST", "/api/2.0/workspace/import"),
    ("POST", "/api/2.0/workspace-files/import-file/Shared/f?overwrite=true"),
    ("POST", "/api/2.0/sql/statements"),
    ("POST", "/local/faults"),
]


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_a_stream_of_100_mib_from_nobody_is_cut_short(up: Deployment, method: str, path: str) -> None:
    reset()
    before = peak_mib()
    sent, _ = streamed(up, method, path)
    assert sent < ALL // 2
    assert peak_mib() - before < 20


@pytest.mark.parametrize(("method", "path"), KNOWN)
def test_with_a_token_no_more_than_32_mib_are_kept(up: Deployment, method: str, path: str) -> None:
    sent, _ = streamed(up, method, path, f"Authorization: Bearer {up.token('ops')}")
    assert sent < ALL // 2


@pytest.mark.parametrize(("method", "path"), [*OPEN, *KNOWN])
def test_a_length_that_is_too_large_is_answered_before_a_byte_of_the_body_has_come(
    up: Deployment, method: str, path: str
) -> None:
    with opened(up) as peer:
        much = 6 * 1024 * MIB
        peer.sendall(head(up, method, path, f"Content-Length: {much}", f"Authorization: Bearer {up.token('ops')}"))
        said = told(peer)
    assert said.startswith(b"HTTP/1.1 413"), said[:200]
    assert b"connection: close" in said
    assert b"MALFORMED_REQUEST" in said


def test_what_is_a_little_too_large_hears_why(up: Deployment) -> None:
    form = b"grant_type=client_credentials&x=" + b"x" * 70_000
    answer = httpx.post(f"{up.host('ops')}/oidc/v1/token", content=form)
    assert answer.status_code == 413
    assert "over 64 KiB, the most for /oidc/v1/token" in answer.json()["message"]


def test_a_file_for_a_volume_goes_to_the_disk_as_it_comes(up: Deployment) -> None:
    headers = {"Authorization": f"Bearer {up.token('ops')}"}
    with httpx.Client(base_url=up.host("ops"), headers=headers, timeout=60) as http:
        http.post("/api/2.1/unity-catalog/catalogs", json={"name": "main"})
        http.post("/api/2.1/unity-catalog/schemas", json={"catalog_name": "main", "name": "big"})
        body = {"catalog_name": "main", "schema_name": "big", "name": "files", "volume_type": "MANAGED"}
        assert http.post("/api/2.1/unity-catalog/volumes", json=body).status_code == 200
        reset()
        before = peak_mib()
        answer = http.put("/api/2.0/fs/files/Volumes/main/big/files/f", content=(CHUNK for _ in range(ALL)))
        assert answer.status_code == 204, answer.text
        assert peak_mib() - before < 20
        assert http.head("/api/2.0/fs/files/Volumes/main/big/files/f").headers["content-length"] == str(ALL * MIB)


def test_a_connection_serves_the_next_request_after_a_refused_body(up: Deployment) -> None:
    with opened(up) as peer:
        for _ in range(2):
            peer.sendall(head(up, "POST", "/api/2.2/jobs/create", "Content-Length: 300000") + b"x" * 300_000)
            heard = b""
            while b"Credential was not sent" not in heard:
                heard += peer.recv(65536)
            assert b" 401 " in heard


def test_headers_without_an_end_are_cut_short(up: Deployment) -> None:
    with opened(up) as peer, pytest.raises(ConnectionError):  # noqa: PT012 - it is one of the sends that fails
        peer.sendall(head(up, "GET", "/local/health")[:-2] + b"X-Long: ")
        for _ in range(ALL):
            peer.sendall(CHUNK)
        raise AssertionError("all was taken")


def test_trailers_without_an_end_are_cut_short(up: Deployment) -> None:
    with opened(up) as peer, pytest.raises(ConnectionError):  # noqa: PT012
        peer.sendall(head(up, "POST", "/oidc/v1/token", "Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\nX-Long: ")
        for _ in range(ALL):
            peer.sendall(CHUNK)
        raise AssertionError("all was taken")


def test_an_address_is_bounded_too(up: Deployment) -> None:
    with opened(up) as peer:
        peer.sendall(head(up, "GET", "/api/2.2/jobs/list?name=" + "x" * 40_000, "Connection: close"))
        assert b"The path and the query are over 32 KiB" in told(peer)


def test_a_body_that_does_not_come_is_not_waited_for(up: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LONGEST_SILENCE_SECONDS", 0.1)
    with opened(up) as peer:
        peer.sendall(head(up, "POST", "/oidc/v1/token", "Content-Length: 100") + b"grant")
        assert told(peer).startswith(b"HTTP/1.1 408")


def test_a_body_that_drips_has_an_end_too(up: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LONGEST_BODY_SECONDS", 0.5)
    with opened(up) as peer:
        peer.sendall(head(up, "POST", "/oidc/v1/token", "Content-Length: 10000"))
        peer.settimeout(0.05)
        heard = b""

        def dripped() -> bytes:
            nonlocal heard
            try:
                peer.sendall(b"x")
                heard += peer.recv(65536)
            except TimeoutError:
                pass
            except ConnectionError:
                heard = heard or b"HTTP/1.1 408"
            return heard

        assert eventually(dripped).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("begun", [b"", b"GET /local/health HT", b"GET /local/health HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_a_connection_that_asks_nothing_is_closed(
    up: Deployment, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(connections, "LONGEST_HEAD_SECONDS", 0.1)
    with opened(up) as peer:
        peer.sendall(begun)
        started = time.monotonic()
        assert told(peer) == b""
        assert time.monotonic() - started < 20
