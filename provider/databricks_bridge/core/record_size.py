"""How large a record is, how large it can become while its claim is open, and how it is made smaller.

A claim that is written has to be followed to its end: its run is started and paid for. So what comes after the claim has to
fit into the ledger before the claim is written.
"""

from __future__ import annotations

import json
from dataclasses import replace

from databricks_bridge.core.record import Claim, ClaimStatus, Record, Transition
from databricks_bridge.core.sources import DeltaTable, Source
from databricks_bridge.core.task_try import TaskTry
from databricks_bridge.core.texts import LONGEST_TEXT

HISTORY_KEPT_AT_LEAST = 1
_RACER = 200
"""Bytes by which a range may grow when the one of another process, which came first, is adopted."""
_LARGE = 10**9
_LONGEST_ID = "x" * 250
"""Airflow's own bound for a DAG run's id."""

_TABLE, _RUNS, _BASE = 2_210, 10_600, 3_200
_PER_ALIAS, _PER_NAME = 8, 4
"""Bytes of a whole record: for a table, for a job's runs, for none of them; and what each character of a source's alias and of
the name that its consumer reads adds. Measured by a test, from the largest forms that there are."""


def size_of(record: Record) -> int:
    """Bytes of the record as JSON."""
    return len(json.dumps(record.to_json()).encode())


def shrunk(record: Record, most: int) -> Record:
    """The record in at most `most` bytes where that is possible: old history goes first, old commits then; the last of each
    stay.
    """
    size = size_of(record)
    history, commits = list(record.history), list(record.commits)
    while size > most and len(history) > HISTORY_KEPT_AT_LEAST:
        size -= _bytes(history.pop(0).to_json())
    while size > most and len(commits) > 1:
        size -= _bytes(commits.pop(0).to_json())
    return replace(record, history=tuple(history), commits=tuple(commits))


def is_new_claim(record: Record) -> bool:
    """Whether this write makes the claim: nothing was started for it yet, so that it still can be left."""
    claim = record.claim
    return claim is not None and claim.run_id is None and claim.generation == 0 and claim.status is ClaimStatus.OPEN


def largest_later(record: Record) -> Record:
    """The record in its largest form until its open claim is gone, with as little history and as few commits as can be."""
    claim = record.claim
    at = record.history[-1].at if record.history else None
    history = (Transition(at, "x" * LONGEST_TEXT),) if at else ()
    more = "x" * (_RACER * len(claim.ranges)) if claim else ""
    return replace(
        record,
        history=history,
        commits=record.commits[-1:],
        revision=_LARGE,
        claim=None if claim is None else _largest(claim),
        epoch=record.epoch + more,
    )


def sources_that_fit(sources: tuple[Source, ...], most: int) -> int:
    """How many of these sources, from the first on, one record of at most `most` bytes can have. By estimate, never too few bytes."""
    size = _BASE
    for count, source in enumerate(sources):
        name = source.reader_name if isinstance(source, DeltaTable) else source.job
        kind = _TABLE if isinstance(source, DeltaTable) else _RUNS
        size += kind + _PER_ALIAS * len(source.alias) + _PER_NAME * len(name)
        if size > most:
            return count
    return len(sources)


def _largest(claim: Claim) -> Claim:
    task = claim.task or TaskTry(_LONGEST_ID, _LONGEST_ID, _LONGEST_ID)
    return replace(
        claim,
        generation=_LARGE,
        run_id=2**63,
        status=ClaimStatus.UNDECIDED,
        failures=_LARGE,
        idle=_LARGE,
        not_before=claim.created_at,
        task=replace(task, run_id=_LONGEST_ID, map_index=_LARGE, number=_LARGE),
        parameters=tuple(
            (name, str(_LARGE) if name == "bridge_generation" else value) for name, value in claim.parameters
        ),
    )


def _bytes(value: object) -> int:
    return len(json.dumps(value)) + 2
