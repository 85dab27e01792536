"""When a schedule fires: at each time that its cron expression names in its time zone. Time scales do not touch it."""

from __future__ import annotations

from datetime import datetime

from databricks_bridge.local.triggers.outcome import Fire, Held, Outcome, State, to_ms
from databricks_bridge.local.triggers.settings import Schedule


def decide_schedule(settings: Schedule, state: State | None, now: datetime, since: datetime) -> Outcome:
    """Decide from the clock alone. `since` is when the schedule was set or resumed.

    Times that passed while nothing was up are one run, which says the last of them; Databricks documents nothing here.
    """
    done = since if state is None else datetime.fromisoformat(state["done"])
    due = settings.cron.next_after(done, settings.zone)
    if due is None:
        return Held(f"{settings.cron.text} names no time after {done.isoformat()}", {"done": done.isoformat()})
    if now < due:
        return Held(f"the next run is due at {due.isoformat()}", {"done": done.isoformat()}, due)
    slot = settings.cron.last_between(done, now, settings.zone) or due
    return Fire(
        "PERIODIC",
        f"was due at {slot.isoformat()}",
        {"done": slot.isoformat()},
        context={"type": "periodic"},
        times={"time": to_ms(slot)},
    )
