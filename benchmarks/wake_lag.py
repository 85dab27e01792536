"""From the end of a run to the trigger's event, with a thousand waits on one workspace."""

from __future__ import annotations

import time

from benchmarks.figures import Figure, number
from benchmarks.waits import service_in_thread, waiting

WAITS, RUNS = 1000, 200
POLL_SECONDS, POLLS = 10.0, 6


def measure() -> list[Figure]:
    """The 99th percentile of the lag over one poll."""
    with service_in_thread() as service:
        for run_id in range(1, RUNS + 1):
            service.start(run_id, service.job(run_id % 40 + 1, f"job-{run_id % 40 + 1}"))
        with waiting("ours", service, [n % RUNS + 1 for n in range(WAITS)], POLL_SECONDS) as waiters:
            time.sleep(POLL_SECONDS * 2)
            ended: dict[int, float] = {}
            for run_id in range(1, RUNS + 1):
                service.end(run_id)
                ended[run_id] = time.time()
                time.sleep(POLL_SECONDS * POLLS / RUNS)
            waiters.until(WAITS, POLL_SECONDS * 3)
    lags = sorted(at - ended[wait % RUNS + 1] for wait, at in waiters.ended.items())
    if not lags:
        raise RuntimeError("no wait ended")
    late = lags[int(len(lags) * 0.99) - 1]
    print(
        f"wake-lag: {len(lags)} waits, median {number(lags[len(lags) // 2])} s, p99 {number(late)} s, one poll is 10 s"
    )
    return [
        Figure("of one poll, p99", late / POLL_SECONDS, most=1.05),
        Figure("waits lost", WAITS - len(lags), most=0),
    ]
