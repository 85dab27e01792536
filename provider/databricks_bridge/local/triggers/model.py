"""When a model trigger fires: a model was created, a version of one became ready, or an alias was set.

There is no registry of models here: what happened to them is declared (`POST /local/model-events`) and kept, one line
each, beside the tables of the metastore.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from databricks_bridge.core.policy import Hold, Policy, decide
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.triggers.outcome import Fire, Held, Outcome, State
from databricks_bridge.local.triggers.settings import Model

EVENTS = ("MODEL_CREATED", "MODEL_VERSION_READY", "MODEL_ALIAS_SET")
"""Jobs API, ModelTriggerConfigurationCondition."""


@dataclass(frozen=True)
class ModelEvent:
    """`event` is one of EVENTS, `model` is catalog.schema.model in lower case, `at` epoch milliseconds."""

    event: str
    model: str
    at: int
    alias: str | None = None


def append_event(layout: Layout, metastore: str, event: ModelEvent) -> None:
    """Keep the event; called by one process, one at a time."""
    with _file(layout, metastore).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(event)) + "\n")


def read_events(layout: Layout, metastore: str) -> list[ModelEvent]:
    """All events, oldest first; a line that is being written is left for the next look."""
    try:
        lines = _file(layout, metastore).read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [ModelEvent(**json.loads(line)) for line in lines]


def decide_model(
    settings: Model, policy: Policy, events: Sequence[ModelEvent], state: State | None, now: datetime, since: datetime
) -> Outcome:
    """Decide from all events. `policy` is `settings.policy` with its timers scaled; what was before `since` is no news."""
    read = _baseline(events, since, now) if state is None else int(state["read"])
    changed_at = None if state is None or state["changed_at"] is None else datetime.fromisoformat(state["changed_at"])
    fired_at = None if state is None or state["fired_at"] is None else datetime.fromisoformat(state["fired_at"])
    for event in events[read:]:
        if _is_watched(settings, event):
            changed_at = min(_time(event), now)
    watched = settings.securable_name or "the metastore"
    decision = decide(policy, {watched: changed_at}, fired_at, now)
    if isinstance(decision, Hold):
        reason = decision.reason if changed_at else f"no {settings.condition} in {watched}"
        return Held(reason, _state(len(events), changed_at, fired_at), decision.until)
    return Fire(
        "MODEL", f"{settings.condition} in {watched}", _state(len(events), None, now), context={"type": "model"}
    )


def _baseline(events: Sequence[ModelEvent], since: datetime, now: datetime) -> int:
    """How many events are no news at the first look. One later than `now` is older: the clock has gone back since."""
    old = [number for number, event in enumerate(events, start=1) if not since < _time(event) <= now]
    return old[-1] if old else 0


def _is_watched(settings: Model, event: ModelEvent) -> bool:
    name = settings.securable_name
    within = not name or event.model == name or event.model.startswith(f"{name}.")
    return within and event.event == settings.condition and (not settings.aliases or event.alias in settings.aliases)


def _state(read: int, changed_at: datetime | None, fired_at: datetime | None) -> State:
    return {
        "read": read,
        "changed_at": changed_at and changed_at.isoformat(),
        "fired_at": fired_at and fired_at.isoformat(),
    }


def _time(event: ModelEvent) -> datetime:
    return datetime.fromtimestamp(event.at / 1000, UTC)


def _file(layout: Layout, metastore: str) -> Path:
    return layout.metastore_root(metastore) / ".model-events.jsonl"
