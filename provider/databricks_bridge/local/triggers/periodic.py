"""When a periodic trigger fires: each time its interval has passed; what was missed while down is one run."""

from __future__ import annotations

from datetime import datetime, timedelta

from databricks_bridge.local.triggers.outcome import Fire, Held, Outcome, State


def decide_periodic(interval: timedelta, state: State | None, now: datetime, since: datetime) -> Outcome:
    """Decide from the clock alone. `interval` is scaled; the first run is one interval after `since`."""
    anchor = since if state is None else datetime.fromisoformat(state["fired_at"])
    due = anchor + interval
    if now < due:
        return Held(f"the next run is due at {due.isoformat()}", {"fired_at": anchor.isoformat()}, due)
    # The rhythm is kept: the next run is due a whole number of intervals after the first, not after a late look.
    slot = anchor + interval * ((now - anchor) // interval)
    return Fire(
        "PERIODIC", f"was due at {due.isoformat()}", {"fired_at": slot.isoformat()}, context={"type": "periodic"}
    )
