"""When a sensor or watcher lets the consumer go: the policy over what is pending, with its timers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from databricks_bridge.core.errors import ClaimBlocked, ClaimUndecided
from databricks_bridge.core.left_out import words_of
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.pending import Finding, changes_of, passed_over, ranges_of, settle
from databricks_bridge.core.policy import Hold, Ready, decide
from databricks_bridge.core.positions import Position
from databricks_bridge.core.record import FIRST_EPOCH, Claim, ClaimStatus, Record
from databricks_bridge.core.subscription import SubscriptionSpec

_WAITS_FOR_A_PERSON = (ClaimStatus.BLOCKED, ClaimStatus.UNDECIDED)


REPAIRED = (Ending.ACTIVE, Ending.SUCCEEDED)
"""How the run of a claim that waits for a person stands once somebody has repaired it."""


def to_look_at(record: Record | None) -> Claim | None:
    """The claim that waits for a person and whose run may have been repaired meanwhile: its run is to be looked at first."""
    claim = record.claim if record else None
    return claim if claim is not None and claim.status in _WAITS_FOR_A_PERSON and claim.run_id is not None else None


def ready_at_once(spec: SubscriptionSpec, record: Record | None, ending: Ending | None = Ending.FAILED) -> str | None:
    """Why the consumer has something to do without a look, or None.

    An open claim comes first, whoever comes next; and only the consumer can write down a first start at "latest".
    Raises ClaimBlocked, ClaimUndecided: then only a person can go on.

    :param ending: how the run of a claim that waits for a person (`to_look_at`) stands now; None where the waiting side cannot
        tell, and leaves the look to the consumer
    """
    claim = record.claim if record else None
    if claim is not None:
        if claim.status in _WAITS_FOR_A_PERSON and claim.run_id is not None and ending is not Ending.FAILED:
            if ending is None:
                return f"the run {claim.run_id} of the {claim.status} claim on {claim} is to be looked at"
            if ending in REPAIRED:
                how = "is active again" if ending is Ending.ACTIVE else "succeeded"
                return f"run {claim.run_id} of the {claim.status} claim on {claim} {how}"
        if claim.status is ClaimStatus.BLOCKED:
            raise ClaimBlocked(
                f"{claim.failures} runs of {claim} failed, the last is {claim.run_id}; repair it in Databricks (then this goes on "
                "by itself), or resolve it: databricks-bridge claim resolve"
            )
        if claim.status is ClaimStatus.UNDECIDED:
            raise ClaimUndecided(
                f"nothing can tell whether {claim} was processed by run {claim.run_id}; look at the target and resolve it: "
                "databricks-bridge claim resolve"
            )
        return f"an open claim on {claim} is to be resolved"
    marks = record.watermarks if record else {}
    new = [one.alias for one in spec.sources if one.alias not in marks and spec.start_of(one) == "latest"]
    return f"the first start of {', '.join(new)} is to be recorded" if new else None


def decide_wait(
    spec: SubscriptionSpec,
    watermarks: Mapping[str, Position],
    last_claimed_at: datetime | None,
    findings: Mapping[str, Finding],
    now: datetime,
) -> Hold | Ready:
    """Hold or ready, by condition and timers. Raises SourceError for a source that needs a decision."""
    settled = settle(spec, watermarks, FIRST_EPOCH, findings)
    if settled.notes:
        return Ready(tuple(sorted(findings)), "; ".join(settled.notes))
    ranges = ranges_of(spec, settled.watermarks, findings)
    decision = decide(spec.policy, changes_of(ranges, findings, now), last_claimed_at, now)
    if isinstance(decision, Hold):
        # Only the consumer can write down that there was no data, and it has to before the log forgets it.
        due = passed_over(spec, settled.watermarks, findings, now).due
        return Ready((), "; ".join(due)) if due else decision
    ready = [str(one) for one in ranges if not one.empty]
    return Ready(decision.updated, "; ".join([*ready, *words_of(findings)]))
