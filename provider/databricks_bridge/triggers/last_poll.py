"""When the triggers of this process last had an answer, as a metric: a triggerer that is alive but stuck stops sending it.

Airflow's triggerer sends its heartbeat from another process than the one in which the triggers run, so that a heartbeat
says nothing about them. A look is answered by the feeds of the process from memory; after a round of theirs that failed it fails
too.
"""

from __future__ import annotations

from datetime import datetime

LAST = "databricks_bridge.poll.last"
"""A gauge: the Unix time in seconds of the last look that was answered, tagged with the trigger's class. It is a time and no
age, for who is stuck can send no age; alert on now minus it."""

_sent: dict[str, int] = {}


def note_poll(trigger: str, now: datetime) -> None:
    """A look of this class of triggers was answered. A thousand in a second are sent as one."""
    from airflow.sdk.observability import stats

    second = int(now.timestamp())
    if _sent.get(trigger) != second:
        _sent[trigger] = second
        stats.gauge(LAST, second, tags={"trigger": trigger})
