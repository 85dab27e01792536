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


def waits_for_a_person(record: Record | None) -> bool:
    """Whether nothing that the consumer does changes anything."""
    return record is not None and record.claim is not None and record.claim.status in _WAITS_FOR_A_PERSON


def may_send(record: Record | None, sent: Sent | None, now: datetime, resend_after: timedelta) -> bool:
    """Whether an event may be sent for this record now, if there is something to do.

    Never for a claim that waits for a person. While a claim's run is under way its consumer is at work, and what is not
    seen here is asked by the watcher (`AtWork`). After a failed run the pause doubles with each failure: a consumer that
    keeps failing does not use up its generations in a moment.
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
        return resend_after
    doublings = min(max(0, claim.failures - 1), 20)  # a timedelta ends before failures do
    pause: timedelta = resend_after * 2**doublings
    return min(pause, LONGEST_SILENCE)


@dataclass(frozen=True)
class AtWork:
    """What the watcher has seen of the run of an open claim: when it asked last, and since when the run is over, as it saw it.

    The record alone does not tell whether the claim's consumer is there: its task may have been lost, failed or marked while
    the run went on, and then nobody commits what the run did.
    """

    run_id: int
    asked_at: datetime
    over_since: datetime | None = None


def to_ask(record: Record | None, seen: AtWork | None, now: datetime, resend_after: timedelta) -> bool:
    """Whether to ask for the state of the open claim's run: at most once in `resend_after`, and not again once it is over."""
    claim = record.claim if record else None
    if claim is None or claim.run_id is None or claim.status is not ClaimStatus.OPEN:
        return False
    if seen is None or seen.run_id != claim.run_id:
        return True
    return seen.over_since is None and now >= seen.asked_at + resend_after


def after_asking(claim: Claim, active: bool, now: datetime) -> AtWork:
    """What to remember of an answer."""
    assert claim.run_id is not None
    return AtWork(claim.run_id, now, None if active else now)


def is_at_work(record: Record | None, seen: AtWork | None, now: datetime, resend_after: timedelta) -> bool:
    """Whether the open claim's run is under way, or over for so short that its consumer may still be about to commit."""
    claim = record.claim if record else None
    if claim is None or seen is None or claim.run_id != seen.run_id or claim.status is not ClaimStatus.OPEN:
        return False
    return seen.over_since is None or now < seen.over_since + resend_after


def after_sending(record: Record | None, sent: Sent | None, now: datetime, resend_after: timedelta) -> Sent:
    """What to remember of an event sent now."""
    revision = revision_of(record)
    again = sent is not None and sent.revision == revision
    pause = min(sent.pause * 2, LONGEST_SILENCE) if sent is not None and again else resend_after
    return Sent(revision, now, pause)
