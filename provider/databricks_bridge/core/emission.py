"""When a level-triggered watcher sends an event: whenever there is something to do and nobody is known to do it.

It trusts no cursor of its own. After a restart it sends once more, which costs the consumer one look; what it must never
do is stay silent while something is pending.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from databricks_bridge.core.record import Claim, ClaimStatus, Record

LONGEST_SILENCE = timedelta(hours=1)
"""Between two events for one unchanged record the pause doubles from `resend_after` up to this."""

_WAITS_FOR_A_PERSON = (ClaimStatus.BLOCKED, ClaimStatus.UNDECIDED)


@dataclass(frozen=True)
class Sent:
    """What the watcher remembers of its last event: the record's revision then, and the pause until the next one."""

    revision: int
    at: datetime
    pause: timedelta


def revision_of(record: Record | None) -> int:
    """0 where there is no record."""
    return record.revision if record else 0


def may_send(record: Record | None, sent: Sent | None, now: datetime, resend_after: timedelta) -> bool:
    """Whether an event may be sent for this record now, if there is something to do.

    Never for a claim that waits for a person. While a claim's run is under way its consumer is at work: then only when
    nothing was written for `LONGEST_SILENCE`, in case the consumer died for good. After a failed run the pause doubles
    with each failure: a consumer that keeps failing does not use up its generations in a moment.
    """
    claim = record.claim if record else None
    if record is not None and claim is not None:
        if claim.status in _WAITS_FOR_A_PERSON:
            return False
        last_write = record.history[-1].at if record.history else claim.created_at
        if now - last_write < _silence(claim, resend_after):
            return False
    if sent is None or sent.revision != revision_of(record):
        return True
    return now >= sent.at + sent.pause


def _silence(claim: Claim, resend_after: timedelta) -> timedelta:
    """For how long after the last write its own consumer, or Airflow's retry of it, is left to go on by itself."""
    if claim.status is ClaimStatus.OPEN:
        return LONGEST_SILENCE if claim.run_id is not None else resend_after
    doublings = min(max(0, claim.failures - 1), 20)  # a timedelta ends before failures do
    pause: timedelta = resend_after * 2**doublings
    return min(pause, LONGEST_SILENCE)


def after_sending(record: Record | None, sent: Sent | None, now: datetime, resend_after: timedelta) -> Sent:
    """What to remember of an event sent now."""
    revision = revision_of(record)
    again = sent is not None and sent.revision == revision
    pause = min(sent.pause * 2, LONGEST_SILENCE) if sent is not None and again else resend_after
    return Sent(revision, now, pause)
