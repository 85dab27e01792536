"""How often each endpoint may be called.

Databricks publishes requests per second per workspace (resource-limits page of 2026-07-28). We take half of
each: the workspace has other users. An endpoint without a published row gets `_UNPUBLISHED`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiolimiter import AsyncLimiter

_SHARE = 0.5
_UNPUBLISHED = 20.0
PUBLISHED: dict[tuple[str, str], float] = {
    ("GET", "jobs/get"): 20,
    ("GET", "jobs/list"): 20,
    ("POST", "jobs/run-now"): 20,
    ("GET", "jobs/runs/get"): 100,
    ("GET", "jobs/runs/list"): 30,
    ("GET", "jobs/runs/get-output"): 20,
    ("POST", "jobs/runs/cancel"): 10,
}


def endpoint(method: str, path: str) -> tuple[str, str]:
    """The key of a call: `("GET", "jobs/get")` for any API version; paths without a published rate share one key."""
    key = (method, path.split("/", 3)[-1])
    return key if key in PUBLISHED else (method, "")


class Limits:
    """One leaky bucket for each endpoint, made when it is first used (aiolimiter binds to the running loop)."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str], AsyncLimiter] = {}

    def bucket(self, method: str, path: str) -> AsyncLimiter:
        """The bucket to enter before the call: `async with limits.bucket(...)`."""
        from aiolimiter import AsyncLimiter

        key = endpoint(method, path)
        if key not in self._buckets:
            rate = PUBLISHED.get(key, _UNPUBLISHED) * _SHARE
            self._buckets[key] = AsyncLimiter(max_rate=rate, time_period=1.0)
        return self._buckets[key]
