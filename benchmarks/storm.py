"""Two hundred waits against a workspace that allows ten requests a second and then answers 429 for forty seconds."""

from __future__ import annotations

import time

from benchmarks.figures import Figure, number
from benchmarks.waits import Waiters, service_in_thread, waiting

WAITS = 200
POLL_SECONDS = 10.0
SHUT_SECONDS = 40.0


def measure() -> list[Figure]:
    """Waits lost, 429s after the first, and how long after the storm the last one resumed; the official ones beside."""
    ours, refused, resumed = _storm("ours")
    official, official_refused, _ = _storm("official")
    died = sum(status.startswith("died") for status in official.status.values())
    print(
        f"storm: the official triggers lost {died} of {WAITS}, with {official_refused} answers of 429; ours had {refused} and "
        f"resumed {number(resumed)} s after the end"
    )
    lost = WAITS - sum(status == "ready" for status in ours.status.values())
    return [
        Figure("waits lost", lost, most=0),
        Figure("answers of 429 after the first", max(0, refused - 1), most=0),
        Figure("polls until all had resumed", resumed / POLL_SECONDS, most=2),
    ]


def _storm(kind: str) -> tuple[Waiters, int, float]:
    """The waits, the 429s that they met, and the seconds from the end of the storm to the last event."""
    with service_in_thread() as service:
        for run_id in range(1, WAITS + 1):
            service.start(run_id, service.job(run_id % 20 + 1, f"job-{run_id % 20 + 1}"))
        service.per_second = 10
        with waiting(kind, service, list(range(1, WAITS + 1)), POLL_SECONDS) as waiters:
            time.sleep(POLL_SECONDS * 1.5)
            service.shut_until = time.monotonic() + SHUT_SECONDS
            time.sleep(POLL_SECONDS)
            for run_id in range(1, WAITS + 1):
                service.end(run_id)
            time.sleep(SHUT_SECONDS - POLL_SECONDS)
            over = time.time()
            waiters.until(WAITS, POLL_SECONDS * 6)
    last = max((at for one, at in waiters.ended.items() if waiters.status[one] == "ready"), default=over)
    return waiters, len(service.refused), max(0.0, last - over)
