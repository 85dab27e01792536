"""Times that a trigger has kept, when the clock has gone back since.

The deployment's clock may be moved forward for a while (the fault `clock`), and a machine's may be set right. What was
kept meanwhile lies in the future afterwards; left there it would hold the trigger until the clock has caught up.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from databricks_bridge.local.triggers.outcome import State

_KEPT = frozenset({"fired_at", "changed_at", "looked_at", "done"})
"""What the kinds keep of the past, ISO 8601. The wait of a continuous job is of the future, and bounds itself."""


def pulled_back(state: State | None, now: datetime) -> State | None:
    """The state with every kept time that is later than `now` made `now`."""
    return None if state is None else _pulled(state, now)


def _pulled(state: State, now: datetime) -> State:
    return {name: _value(name, value, now) for name, value in state.items()}


def _value(name: str, value: Any, now: datetime) -> Any:
    if isinstance(value, dict):
        return _pulled(value, now)
    if name in _KEPT and value is not None:
        return min(datetime.fromisoformat(value), now).isoformat()
    return value
