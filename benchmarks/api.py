"""What an answer of runs/get costs the local workspace, in CPU, against a bare FastAPI endpoint that returns the same bytes."""

from __future__ import annotations

import base64
import http.client
import json
from statistics import median
from urllib.parse import urlsplit

from benchmarks.children import child, cpu_seconds, line_of
from benchmarks.figures import Figure, number

REQUESTS, ROUNDS, WARM_UP = 1000, 11, 500


def measure() -> list[Figure]:
    """The CPU time of the server's process, by one client. Short rounds in turns, and the median of their ratios: what other
    work on the machine does to one of a pair it does to the other.
    """
    with child("benchmarks.local_process", "ours") as ours:
        told = json.loads(line_of(ours))
        headers = {"Authorization": f"Bearer {told['token']}"}
        answer = _get(told["host"], told["path"], headers, 1)
        encoded = base64.b64encode(answer).decode()
        with child("benchmarks.local_process", "bare", told["path"], encoded) as bare:
            servers = {"ours": (ours.pid, told["host"]), "bare": (bare.pid, json.loads(line_of(bare))["host"])}
            seconds: dict[str, list[float]] = {name: [] for name in servers}
            for _, host in servers.values():
                if _get(host, told["path"], headers, WARM_UP) != answer:
                    raise RuntimeError(f"{host} does not answer with the same bytes")
            for _ in range(ROUNDS):
                for name, (pid, host) in servers.items():
                    before = cpu_seconds(pid)
                    _get(host, told["path"], headers, REQUESTS)
                    seconds[name].append(cpu_seconds(pid) - before)
    each = {name: number(median(spent) / REQUESTS * 1e6) for name, spent in seconds.items()}
    ratios = [ours / bare for ours, bare in zip(seconds["ours"], seconds["bare"], strict=True)]
    print(
        f"api: {REQUESTS * ROUNDS:,} times {len(answer):,} bytes: {each['ours']} microseconds of CPU each, the bare endpoint "
        f"{each['bare']}; the ratio was from {number(min(ratios))} to {number(max(ratios))}"
    )
    return [Figure("times the CPU of a bare endpoint", median(ratios), most=3)]


def _get(host: str, path: str, headers: dict[str, str], times: int) -> bytes:
    """The last of so many answers, over one connection. Raises RuntimeError for any that is not 200."""
    connection = http.client.HTTPConnection(urlsplit(host).netloc, timeout=30)
    body = b""
    try:
        for _ in range(times):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{host}{path} answered {answer.status}: {body[:200]!r}")
    finally:
        connection.close()
    return body
