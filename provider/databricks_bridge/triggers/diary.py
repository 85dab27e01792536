"""What a watcher tells of itself: warnings with a pause, metrics, and a note beside the record for `status`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.texts import bounded

if TYPE_CHECKING:
    from databricks_bridge.core.watching import Trouble, WatchNote

ERRORS, TROUBLE, RESTARTED = (
    "databricks_bridge.watch.errors",
    "databricks_bridge.watch.trouble",
    "databricks_bridge.watch.restarted",
)
"""A counter of polls that failed (tags `subscription`, `error`), a gauge of seconds in trouble, 0 when well, and a counter of
starts that are too many (tag `subscription`)."""

WARN_AGAIN_AFTER = timedelta(minutes=10)
NOTE_AGAIN_AFTER = timedelta(minutes=1)

LONGEST_TROUBLE = 1000

_started: dict[str, list[tuple[str, str]]] = {}


class Diary:
    """One watcher's. Times are given, nothing here waits or raises."""

    def __init__(self, subscription: str, definition: Mapping[str, Any], warn: Callable[..., object]) -> None:
        self._subscription, self._definition, self._warn = subscription, definition, warn
        self._trouble: Trouble | None = None
        self._warned: tuple[str, datetime] | None = None
        self._note: WatchNote | None = None
        self._starts: tuple[tuple[str, str], ...] = ()
        self.read = False

    def failed(self, error: Exception, now: datetime) -> str:
        """A poll failed; the error in words."""
        from airflow.sdk.observability import stats

        from databricks_bridge.core.errors import Unavailable
        from databricks_bridge.core.watching import troubled

        what = bounded(f"{type(error).__name__}: {error}", LONGEST_TROUBLE)
        self._trouble = troubled(self._trouble, what, now, outage=isinstance(error, Unavailable))
        if self._warned is None or self._warned[0] != what or now - self._warned[1] >= WARN_AGAIN_AFTER:
            self._warned = (what, now)
            self._warn("the watcher of %s cannot poll: %s", self._subscription, what)
        tags = {"subscription": self._subscription}
        stats.incr(ERRORS, tags={**tags, "error": type(error).__name__})
        stats.gauge(TROUBLE, (now - self._trouble.since).total_seconds(), tags=tags)
        return what

    def well(self, now: datetime) -> None:
        """A poll was answered."""
        if self._trouble is not None:
            from airflow.sdk.observability import stats

            stats.gauge(TROUBLE, 0, tags={"subscription": self._subscription})
        self._trouble = self._warned = None

    def event_is_due(self, now: datetime) -> bool:
        return self._trouble is not None and now >= self._trouble.next_event

    def told(self, now: datetime) -> None:
        """An event about the trouble has gone out."""
        from databricks_bridge.core.watching import told

        if self._trouble is not None:
            self._trouble = told(self._trouble, now)

    def started(self, kept: object, now: datetime) -> None:
        """This watcher begins; `kept` is the note of the ones before it. Warns where they are too many."""
        from databricks_bridge.core.watching import note_from_json, recent, restarts

        self.read = True
        digest = sha256(json.dumps(self._definition, sort_keys=True, default=str).encode()).hexdigest()[:8]
        here = _started.setdefault(self._subscription, [])
        here.append((now.isoformat(), digest))
        self._starts = recent([*note_from_json(kept).starts, *here], now)
        _started[self._subscription] = list(self._starts)
        if why := restarts(self._subscription, self._starts, now):
            from airflow.sdk.observability import stats

            self._warn("%s", why)
            stats.incr(RESTARTED, tags={"subscription": self._subscription})

    def due_note(self, latest: Mapping[str, str], now: datetime) -> dict[str, Any] | None:
        """The note, where it is another than the one kept, and that is a minute old or the trouble is another."""
        from databricks_bridge.core.watching import WatchNote

        trouble = self._trouble
        since = trouble.since.isoformat() if trouble else ""
        new = WatchNote(trouble.what if trouble else "", since, dict(latest), self._starts, now.isoformat())
        old = self._note
        if old is not None:
            if replace(old, at=new.at) == new:
                return None
            young = now - datetime.fromisoformat(old.at) < NOTE_AGAIN_AFTER
            if young and (old.trouble, old.since) == (new.trouble, new.since):
                return None
        self._note = new
        return new.to_json()
