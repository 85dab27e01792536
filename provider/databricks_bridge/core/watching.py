"""What a watcher knows of itself: the trouble it is in, what it saw last, and how often it was started.

Nobody reads a triggerer's log. So trouble that lasts becomes an event: the consumer fails with the same error where its
author looks; and what is known is kept beside the record, for `databricks-bridge status`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

WATCH_KEY = "databricks_bridge.watch"
"""The watcher's own key in Airflow's asset state store, beside the record, which only tasks write."""

TROUBLE_AFTER = timedelta(minutes=5)
OUTAGE_AFTER = timedelta(hours=1)
"""From when on trouble is told by an event: what only gets no answer ends by itself more often than not."""

LONGEST_SILENCE = timedelta(hours=1)
STARTS_WITHIN = timedelta(minutes=10)
MANY_STARTS = 4
LONGEST_TEXT = 1000


@dataclass(frozen=True)
class Trouble:
    """An error that every poll since `since` has met, or another one after it. `next_event` is when it is due to be told."""

    what: str
    since: datetime
    next_event: datetime
    pause: timedelta = TROUBLE_AFTER

    def to_json(self) -> dict[str, str]:
        return {"what": self.what, "since": self.since.isoformat()}


def troubled(before: Trouble | None, what: str, now: datetime, *, outage: bool) -> Trouble:
    """The trouble after a poll that failed.

    :param outage: whether there was no answer at all, rather than one that says no
    """
    what = what[:LONGEST_TEXT]
    after = OUTAGE_AFTER if outage else TROUBLE_AFTER
    if before is None:
        return Trouble(what, now, now + after)
    if before.pause > TROUBLE_AFTER:  # it was told already
        return replace(before, what=what)
    return Trouble(what, before.since, before.since + after)


def told(trouble: Trouble, now: datetime) -> Trouble:
    """After an event: the next one comes after a pause that doubles up to an hour."""
    pause = min(trouble.pause * 2, LONGEST_SILENCE)
    return replace(trouble, next_event=now + pause, pause=pause)


@dataclass(frozen=True)
class WatchNote:
    """What is kept of a watcher: its trouble, the newest position that it saw of each source, its starts with their definitions."""

    trouble: str = ""
    since: str = ""
    latest: Mapping[str, str] = field(default_factory=dict)
    starts: tuple[tuple[str, str], ...] = ()
    at: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, **vars(self), "latest": dict(self.latest), "starts": [list(one) for one in self.starts]}


def note_from_json(value: object) -> WatchNote:
    """Inverse of `to_json`; an empty note for what was not written by us."""
    if not isinstance(value, Mapping) or value.get("schema") != 1:
        return WatchNote()
    try:
        latest = {str(alias): str(words) for alias, words in value["latest"].items()}
        starts = tuple((str(at), str(digest)) for at, digest in value["starts"])
        return WatchNote(str(value["trouble"]), str(value["since"]), latest, starts, str(value["at"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return WatchNote()


def recent(starts: Iterable[tuple[str, str]], now: datetime) -> tuple[tuple[str, str], ...]:
    """The starts of the last ten minutes, each once, oldest first."""
    oldest = (now - STARTS_WITHIN).isoformat()
    return tuple(sorted({one for one in starts if one[0] >= oldest}))[-2 * MANY_STARTS :]


def restarts(subscription: str, starts: Iterable[tuple[str, str]], now: datetime) -> str:
    """Why the watcher is started again and again, and what to do; empty where it is not.

    Airflow makes a watcher anew whenever a DAG file is parsed that defines its asset in another way.
    """
    lately = recent(starts, now)
    if len(lately) < MANY_STARTS:
        return ""
    different = len({digest for _, digest in lately})
    how = (
        f"with {different} different definitions: the subscription is defined twice"
        if different > 1
        else "with one definition: another DAG file uses its asset as a bare Asset, or defines it without its watcher"
    )
    return (
        f"the watcher of subscription {subscription!r} was started {len(lately)} times in ten minutes, {how}. At times there is "
        "none, and nothing starts. Define the subscription in one module that all DAG files import, and refer to its asset "
        f"elsewhere by Asset.ref(name='databricks_bridge.{subscription}')"
    )
