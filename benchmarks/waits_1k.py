"""A thousand deferred waits on the runs of one workspace, fifty of which are open: requests, and what they cost."""

from __future__ import annotations

import time
from math import ceil
from typing import Any

from benchmarks.children import cpu_seconds
from benchmarks.figures import Figure, number
from benchmarks.jobs_service import PAGE, now_ms
from benchmarks.waits import service_in_thread, waiting

OPEN, JOBS, OLD_RUNS = 50, 40, 2000
POLL_SECONDS, POLLS = 10.0, 6
BUSY_RUNS = 2 * 24 * 60
"""Of one job in the two days that a wait looks back: a run each minute."""


def measure() -> list[Figure]:
    """Requests in the costliest poll, cores, and waits that did not end; then the same waits on one busy job."""
    return [*_many_jobs(), *_one_busy_job()]


def _many_jobs() -> list[Figure]:
    with service_in_thread() as service:
        for at in range(OLD_RUNS):
            service.start(10_000 + at, at % JOBS + 1, at_ms=now_ms() - 7_200_000 - at * 1000)
            service.end(10_000 + at)
        for job_id in range(1, JOBS + 1):
            service.job(job_id, f"job-{job_id}")
        for run_id in range(1, OPEN + 1):
            service.start(run_id, run_id % JOBS + 1)
        # half wait for an open run, half for the next run that a job is fired for
        waits: list[Any] = [n % OPEN + 1 if n % 2 else ["job", n % JOBS + 1] for n in range(1000)]
        with waiting("ours", service, waits, POLL_SECONDS) as waiters:
            time.sleep(POLL_SECONDS * 2)
            polls = []
            cpu, began = cpu_seconds(waiters.pid), time.monotonic()
            for _ in range(POLLS):
                before = sum(service.counts.values())
                time.sleep(POLL_SECONDS)
                polls.append(sum(service.counts.values()) - before)
            cores = (cpu_seconds(waiters.pid) - cpu) / (time.monotonic() - began)
            over = time.time()
            for run_id in range(1, OPEN + 1):
                service.end(run_id)
            waiters.until(1000, POLL_SECONDS * 4)
            lost = 1000 - sum(status == "ready" for status in waiters.status.values())
            slowest = max(waiters.ended.values(), default=over) - over
    print(
        f"waits-1k: {number(sum(polls) / POLLS)} requests a poll (the official shape: 1,000), "
        f"{', '.join(f'{n} {path}' for path, n in service.counts.items())} in all; all told {number(slowest)} s after the end"
    )
    return [
        Figure("requests in the costliest poll", max(polls), most=1 + ceil(OPEN / PAGE)),
        Figure("cores", cores, most=0.5),
        Figure("waits lost", lost, most=0),
    ]


def _one_busy_job() -> list[Figure]:
    """A run of it ends while the cores are counted; those that wait are told at the end."""
    with service_in_thread() as service:
        service.job(1, "busy")
        for at in range(BUSY_RUNS):
            service.start(10_000 + at, 1, at_ms=now_ms() - (at + 1) * 60_000)
            service.end(10_000 + at, "FAILED", at_ms=now_ms() - at * 60_000 - 1000)
        with waiting("ours", service, [["job", 1]] * 1000, POLL_SECONDS) as waiters:
            time.sleep(POLL_SECONDS * 2)
            cpu, began = cpu_seconds(waiters.pid), time.monotonic()
            service.start(1, 1)
            time.sleep(POLL_SECONDS)
            service.end(1, "FAILED")
            time.sleep(POLL_SECONDS * (POLLS - 1))
            cores = (cpu_seconds(waiters.pid) - cpu) / (time.monotonic() - began)
            service.start(2, 1)
            over = time.time()
            service.end(2)
            waiters.until(1000, POLL_SECONDS * 4)
            lost = 1000 - sum(status == "ready" for status in waiters.status.values())
            slowest = max(waiters.ended.values(), default=over) - over
    return [
        Figure("busy job: cores", cores, most=0.5),
        Figure("busy job: slowest, in polls", slowest / POLL_SECONDS, most=1.2),
        Figure("busy job: waits lost", lost, most=0),
    ]
