"""The record of a subscription: all that a ledger holds of it. One write of a record is one transition."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.positions import Position, Range, position_from_json, range_from_json
from databricks_bridge.core.task_try import TaskTry, task_try_from_json
from databricks_bridge.core.texts import LONGEST_PART, bounded

SCHEMA = 1
HISTORY_KEPT = 50
COMMITS_KEPT = 20
FIRST_EPOCH = "0"


@dataclass(frozen=True)
class Target:
    """The downstream job: the workspace's host, its id, and the job's id."""

    host: str
    workspace_id: str
    job_id: int

    def __str__(self) -> str:
        return f"job {self.job_id} in {self.host}"

    @property
    def consumer(self) -> str:
        """The name under which a job is the one consumer of a subscription."""
        return f"{self.host} job {self.job_id}"

    def to_json(self) -> dict[str, Any]:
        return {"host": self.host, "workspace_id": self.workspace_id, "job_id": self.job_id}


class ClaimStatus(StrEnum):
    """OPEN: its run is to be started or followed. FAILED: the run failed and the failure was reported."""

    OPEN = "open"
    FAILED = "failed"
    BLOCKED = "blocked"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Missing:
    """Since when the workspace has not shown this run; without a `run_id`, any run with the claim's token."""

    since: datetime
    run_id: int | None = None

    def to_json(self) -> list[Any]:
        return [self.since.isoformat(), self.run_id]


@dataclass(frozen=True)
class Claim:
    """What is written before a run starts. All of it is fixed then; only run id, status and counters move.

    `failures` counts the generations whose run failed; one that never ran does not count there but in `idle`, those in a
    row. `not_before` holds the next start after one of them. `conn_id` names the Airflow connection to the target's workspace,
    for who wants to look at the run; empty where it is not known. `task` is the Airflow task that the claim was made or handed
    out in, None where no task is known. `created_at` is by the workspace's clock where that is known. `missing` says that
    the run was not shown when it was last read. `cancelled` says that we cancelled the run: its end is no failure. `denied`
    is what the postcondition had against a run that succeeded, or is gone.
    """

    ranges: tuple[Range, ...]
    token: str
    generation: int
    target: Target
    parameters: tuple[tuple[str, str], ...]
    created_at: datetime
    run_id: int | None = None
    status: ClaimStatus = ClaimStatus.OPEN
    failures: int = 0
    idle: int = 0
    not_before: datetime | None = None
    conn_id: str = ""
    task: TaskTry | None = None
    missing: Missing | None = None
    cancelled: bool = False
    denied: str = ""

    def to_json(self) -> dict[str, Any]:
        rare = {
            "missing": self.missing.to_json() if self.missing else None,
            "cancelled": self.cancelled,
            "denied": self.denied,
        }
        return {
            "ranges": [one.to_json() for one in self.ranges],
            "token": self.token,
            "generation": self.generation,
            "target": self.target.to_json(),
            "parameters": dict(self.parameters),
            "created_at": self.created_at.isoformat(),
            "run_id": self.run_id,
            "status": self.status.value,
            "failures": self.failures,
            "idle": self.idle,
            "not_before": self.not_before.isoformat() if self.not_before else None,
            "conn_id": self.conn_id,
            "task": self.task.to_json() if self.task else None,
            **{name: value for name, value in rare.items() if value},
        }

    def __str__(self) -> str:
        return shown_ranges(self.ranges)


@dataclass(frozen=True)
class Commit:
    """What a commit was, for later tries of the task that made it: its result is theirs.

    For external work the task is the one that claimed. `ranges` are those that were not empty, or all of them where other
    tasks were handed the claim.
    """

    token: str
    run_id: int | None
    epoch: str
    ranges: tuple[Range, ...]
    task: TaskTry | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "token": self.token,
            "run_id": self.run_id,
            "epoch": self.epoch,
            "ranges": [one.to_json() for one in self.ranges],
            "task": self.task.to_json() if self.task else None,
        }


@dataclass(frozen=True)
class Transition:
    """One line of a record's history."""

    at: datetime
    what: str

    def to_json(self) -> list[str]:
        return [self.at.isoformat(), self.what]


@dataclass(frozen=True)
class Record:
    """All that the ledger holds of one subscription. `revision` counts its writes. `problem` is why the consumer cannot
    go on until a person decides; whatever is written next clears it. `commits` are the last ones, oldest first.
    """

    subscription: str
    consumer: str
    watermarks: Mapping[str, Position]
    epoch: str = FIRST_EPOCH
    last_claimed_at: datetime | None = None
    claim: Claim | None = None
    history: tuple[Transition, ...] = ()
    revision: int = 0
    problem: str = ""
    commits: tuple[Commit, ...] = ()

    def after(self, at: datetime, what: str, **changes: Any) -> Record:
        """The next record, with one more line of history, which is bounded (`core.texts`)."""
        history = (*self.history, Transition(at, bounded(what)))[-HISTORY_KEPT:]
        return replace(self, history=history, revision=self.revision + 1, **{"problem": "", **changes})

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "subscription": self.subscription,
            "consumer": self.consumer,
            "watermarks": {alias: position.to_json() for alias, position in sorted(self.watermarks.items())},
            "epoch": self.epoch,
            "last_claimed_at": self.last_claimed_at.isoformat() if self.last_claimed_at else None,
            "claim": self.claim.to_json() if self.claim else None,
            "history": [line.to_json() for line in self.history],
            "revision": self.revision,
            "problem": self.problem,
            "commits": [one.to_json() for one in self.commits],
        }


def shown_ranges(ranges: tuple[Range, ...]) -> str:
    """The ranges that are not empty, for people: as many as one line takes."""
    return bounded(", ".join(str(one) for one in ranges if not one.empty), LONGEST_PART)


def record_from_json(value: Mapping[str, Any]) -> Record:
    """Inverse of `Record.to_json`. Raises LedgerError for what this version cannot read."""
    schema = value.get("schema") if isinstance(value, Mapping) else None
    if schema != SCHEMA:
        raise LedgerError(f"the record has schema {schema!r}; this version reads {SCHEMA}: upgrade databricks-bridge")
    try:
        return Record(
            subscription=value["subscription"],
            consumer=value["consumer"],
            watermarks={alias: position_from_json(position) for alias, position in value["watermarks"].items()},
            epoch=value["epoch"],
            last_claimed_at=_time(value["last_claimed_at"]),
            claim=_claim_from_json(value["claim"]) if value["claim"] else None,
            history=tuple(Transition(datetime.fromisoformat(at), what) for at, what in value["history"]),
            revision=value["revision"],
            problem=value.get("problem", ""),
            commits=tuple(_commit_from_json(one) for one in value.get("commits", ())),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"the record of this subscription cannot be read ({error!r})") from error


def token_of(subscription: str, target: Target, epoch: str, from_: Mapping[str, Position], generation: int) -> str:
    """The idempotency token: sha256 hex (64 characters) of canonical JSON.

    `to` is not in it: of two racers with one `from`, Databricks gives both the run of the first.
    """
    facts = {
        "subscription": subscription,
        "workspace_id": target.workspace_id,
        "job_id": target.job_id,
        "epoch": epoch,
        "from": {alias: position.identity() for alias, position in from_.items()},
        "generation": generation,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def claim_id_of(
    subscription: str, target: Target, epoch: str, ranges: tuple[Range, ...], generation: int, nonce: str
) -> str:
    """The id of a claim that is handed to other tasks. There is no racer to adopt ranges from, so `to` is in it, and a
    `nonce`: an id never comes twice with another range, even where the record was lost or began anew.
    """
    facts = {
        "subscription": subscription,
        "consumer": target.host,
        "epoch": epoch,
        "ranges": [[one.alias, one.from_.identity(), one.to.identity(), list(one.runs)] for one in ranges],
        "generation": generation,
        "nonce": nonce,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _claim_from_json(value: Mapping[str, Any]) -> Claim:
    missing = value.get("missing")
    return Claim(
        ranges=tuple(range_from_json(one) for one in value["ranges"]),
        token=value["token"],
        generation=value["generation"],
        target=Target(**value["target"]),
        parameters=tuple(sorted(value["parameters"].items())),
        created_at=datetime.fromisoformat(value["created_at"]),
        run_id=value["run_id"],
        status=ClaimStatus(value["status"]),
        failures=value["failures"],
        idle=value.get("idle", 0),
        not_before=_time(value["not_before"]),
        conn_id=value.get("conn_id", ""),
        task=task_try_from_json(value.get("task")),
        missing=Missing(datetime.fromisoformat(missing[0]), missing[1]) if missing else None,
        cancelled=value.get("cancelled", False),
        denied=value.get("denied", ""),
    )


def _commit_from_json(value: Mapping[str, Any]) -> Commit:
    return Commit(
        token=value["token"],
        run_id=value["run_id"],
        epoch=value["epoch"],
        ranges=tuple(range_from_json(one) for one in value["ranges"]),
        task=task_try_from_json(value["task"]),
    )


def _time(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None
