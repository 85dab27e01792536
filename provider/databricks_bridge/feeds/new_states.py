"""Runs in a life cycle state that is new to us: they are waited for, and warned of once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from databricks_bridge.core.outcomes import outcome_of

log = logging.getLogger(__name__)

KEPT = 1000

Warned = dict[tuple[object, str], None]
"""What was warned of: run id and state, the newest `KEPT`."""

_here: Warned = {}


def warn_once(run: Mapping[str, Any], warned: Warned = _here, warn: Callable[..., object] = log.warning) -> None:
    """Warn of a run whose state is unknown (`docs/outcomes.md`): once in this process, or once in what `warned` remembers,
    for a wait with a log of its own.
    """
    outcome = outcome_of(run)
    key = run.get("run_id"), outcome.life_cycle
    if outcome.known or key in warned:
        return
    warned[key] = None
    if len(warned) > KEPT:
        del warned[next(iter(warned))]
    warn("run %s is in a state new to us (%s); waiting on", run.get("run_id"), outcome)
