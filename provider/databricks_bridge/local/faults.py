"""Faults on purpose: a workspace that throttles, loses answers, forgets tokens, is slow, or refuses.

Declared over HTTP (`/local/faults`), on the command line (`databricks-bridge local fault`) or in a test
(`workspace.faults.arm(...)`). They live in memory: a restart of the deployment ends them all.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from databricks_bridge.core.errors import InvalidArgument

Kind = Literal[
    "rate_limit", "unavailable", "drop_answer", "expire_tokens", "clock", "revoke", "slow_storage", "published_limits"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
PRIVILEGES = {"SELECT": 3, "READ_VOLUME": 3, "USE_SCHEMA": 2, "USE_CATALOG": 1}
"""What can be revoked, and how many parts the name of its securable has."""
STORAGE_PATHS = ("/api/2.0/fs/", "/api/2.0/workspace", "/api/2.0/unity-catalog/", "/api/2.1/unity-catalog/")
# Requests a second for each workspace, from the resource limits that Databricks publishes for its Jobs API.
PUBLISHED_LIMITS = {
    "create": 20,
    "delete": 10,
    "get": 20,
    "list": 20,
    "reset": 20,
    "run-now": 20,
    "update": 10,
    "runs/cancel": 10,
    "runs/cancel-all": 5,
    "runs/delete": 20,
    "runs/export": 20,
    "runs/get": 100,
    "runs/get-output": 20,
    "runs/list": 30,
    "runs/repair": 5,
    "runs/submit": 35,
}


@dataclass(frozen=True)
class Fault:
    """One fault of one workspace; `revoke` is of its metastore, `clock` of the whole deployment.

    `seconds`: of rate_limit, unavailable, slow_storage and published_limits how long it lasts, None until it is ended;
    of clock by how much the time is moved forward. `count`: so many requests of rate_limit, unavailable, drop_answer
    (1 unless given). `path`: only requests whose path holds this text. `delay_seconds`: of slow_storage.
    """

    fault_id: int
    workspace: str
    metastore: str
    kind: Kind
    seconds: float | None = None
    count: int | None = None
    path: str = ""
    delay_seconds: float = 0.0
    privilege: str = ""
    securable: str = ""


@dataclass
class _Armed:
    fault: Fault
    until: float | None
    left: int | None
    buckets: dict[str, tuple[float, float]] = field(default_factory=dict)


class Faults:
    """All faults of a deployment. `time` is a clock of seconds that no fault moves. Used on the event loop's thread."""

    def __init__(self, time: Callable[[], float] = time.monotonic) -> None:
        self._time, self._numbers = time, itertools.count(1)
        self._armed: dict[int, _Armed] = {}

    @property
    def none(self) -> bool:
        """Whether there is no fault at all, the usual case."""
        return not self._armed

    @property
    def clock_seconds(self) -> float:
        """By how much the deployment's clock is ahead."""
        return sum(one.fault.seconds or 0.0 for one in self._armed.values() if one.fault.kind == "clock")

    def arm(
        self,
        workspace: str,
        metastore: str,
        kind: str,
        *,
        seconds: float | None = None,
        count: int | None = None,
        path: str = "",
        delay_seconds: float | None = None,
        privilege: str = "SELECT",
        securable: str = "",
    ) -> Fault:
        """Declare a fault; it begins at once. Raises InvalidArgument for one that says nothing."""
        checked = next((known for known in KINDS if known == kind), None)
        if checked is None:
            raise InvalidArgument(f"kind is {kind!r}; use one of {', '.join(KINDS)}")
        for name, value in (("seconds", seconds), ("count", count), ("delay_seconds", delay_seconds)):
            if value is not None and not 0 < value < 10**9:
                raise InvalidArgument(f"{name} is {value}; give a number above 0")
        if checked == "clock" and seconds is None:
            raise InvalidArgument("clock needs seconds: by how much the time is moved forward")
        if checked == "drop_answer" and count is None:
            count = 1
        if checked == "slow_storage" and delay_seconds is None:
            raise InvalidArgument("slow_storage needs delay_seconds: how long each access to files takes")
        if checked == "revoke":
            _check_revoke(privilege, securable)
        fault = Fault(
            next(self._numbers), workspace, metastore, checked, seconds, count, path, delay_seconds or 0.0,
            privilege if checked == "revoke" else "", securable.lower(),
        )  # fmt: skip
        until = None if seconds is None or checked == "clock" else self._time() + seconds
        # Tokens have expired when they have: there is nothing left to end.
        if checked != "expire_tokens":
            self._armed[fault.fault_id] = _Armed(fault, until, count)
        return fault

    def of(self, workspace: str) -> list[Fault]:
        """The faults of a workspace that go on."""
        return [one.fault for one in self._active() if one.fault.workspace == workspace]

    def end(self, workspace: str, fault_id: int | None = None) -> bool:
        """End one fault, or all of the workspace; whether there was one."""
        ended = [one.fault_id for one in self.of(workspace) if fault_id in (None, one.fault_id)]
        for number in ended:
            del self._armed[number]
        return bool(ended)

    def refusal(self, workspace: str, path: str) -> tuple[Kind, int] | None:
        """Whether this request is refused, by which fault, and its Retry-After in whole seconds."""
        for one in self._hit(workspace, path, "rate_limit", "unavailable"):
            left = 1.0 if one.until is None else one.until - self._time()
            _take(one)
            return one.fault.kind, max(1, round(left))
        for one in self._hit(workspace, path, "published_limits"):
            if not self._admitted(one, path):
                return "rate_limit", 1
        return None

    def drops(self, workspace: str, path: str) -> bool:
        """Whether the answer of this request is lost, once it has been acted on."""
        for one in self._hit(workspace, path, "drop_answer"):
            _take(one)
            return True
        return False

    def delay(self, workspace: str, path: str) -> float:
        """How many seconds the files behind this request take longer."""
        if not path.startswith(STORAGE_PATHS):
            return 0.0
        return sum(one.fault.delay_seconds for one in self._hit(workspace, path, "slow_storage"))

    def is_revoked(self, metastore: str, privilege: str, securable: str) -> bool:
        """Whether the one user of the metastore's workspaces has lost this privilege on exactly this securable."""
        return any(
            (one.fault.metastore, one.fault.privilege, one.fault.securable) == (metastore, privilege, securable)
            for one in self._active()
            if one.fault.kind == "revoke"
        )

    def _active(self) -> list[_Armed]:
        now = self._time()
        for number, one in list(self._armed.items()):
            if one.left == 0 or (one.until is not None and one.until <= now):
                del self._armed[number]
        return list(self._armed.values())

    def _hit(self, workspace: str, path: str, *kinds: Kind) -> list[_Armed]:
        return [
            one
            for one in self._active()
            if one.fault.workspace == workspace and one.fault.kind in kinds and one.fault.path in path
        ]

    def _admitted(self, one: _Armed, path: str) -> bool:
        """A bucket for each published row, which holds one second's requests and fills again at that rate."""
        row = path.partition("/jobs/")[2]
        if not path.startswith("/api/") or row not in PUBLISHED_LIMITS:
            return True
        limit, now = PUBLISHED_LIMITS[row], self._time()
        tokens, since = one.buckets.get(row, (float(limit), now))
        tokens = min(float(limit), tokens + (now - since) * limit)
        admitted = tokens >= 1
        one.buckets[row] = (tokens - 1 if admitted else tokens, now)
        return admitted


def _take(one: _Armed) -> None:
    if one.left is not None:
        one.left -= 1


def _check_revoke(privilege: str, securable: str) -> None:
    parts = PRIVILEGES.get(privilege)
    if parts is None:
        raise InvalidArgument(f"privilege is {privilege!r}; use one of {', '.join(PRIVILEGES)}")
    if len(securable.split(".")) != parts or not all(securable.split(".")):
        shape = ".".join(("catalog", "schema", "volume" if privilege == "READ_VOLUME" else "table")[:parts])
        raise InvalidArgument(f"securable is {securable!r}; {privilege} is revoked on {shape}")
