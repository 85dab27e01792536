"""The memory of a local deployment of three workspaces that has nothing to do, without Spark: all of its processes."""

from __future__ import annotations

import json
import time

import httpx
import psutil

from benchmarks.children import child, cpu_seconds, line_of, pss_mb
from benchmarks.figures import Figure, number

WORKSPACES = ("ops", "met", "analytics")
REST_SECONDS = 10.0


def measure() -> list[Figure]:
    """MB (PSS) of the process tree, after each workspace has answered; and what the loops cost at rest."""
    with child("benchmarks.local_process", "idle", *WORKSPACES) as process:
        for one in json.loads(line_of(process))["workspaces"]:
            headers = {"Authorization": f"Bearer {one['token']}"}
            answer = httpx.get(f"{one['host']}/api/2.2/jobs/list", headers=headers, trust_env=False)
            answer.raise_for_status()
        cpu = cpu_seconds(process.pid)
        time.sleep(REST_SECONDS)
        cores = (cpu_seconds(process.pid) - cpu) / REST_SECONDS
        tree = [process.pid, *(one.pid for one in psutil.Process(process.pid).children(recursive=True))]
        memory = sum(pss_mb(pid) for pid in tree)
    print(f"idle: {len(WORKSPACES)} workspaces, {len(tree)} process(es), {number(cores * 100)} % of a core at rest")
    return [Figure("MB for three idle workspaces", memory, most=150)]
