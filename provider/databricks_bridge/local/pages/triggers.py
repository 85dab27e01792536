"""What starts a job by itself, in words: what it watches, what its last looks came to, and what holds it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from databricks_bridge.local.pages.asked import Asked
from databricks_bridge.local.pages.document import text
from databricks_bridge.local.pages.job_list import kind_of
from databricks_bridge.local.pages.parts import address, button, code, duration, facts, link, mark, soft, table, time
from databricks_bridge.local.runs.starts import is_paused, starts
from databricks_bridge.local.server.jobs_wire import trigger_state
from databricks_bridge.local.store import Job

_LOOKS = (
    ("last_triggered", "fired", "good"),
    ("last_not_triggered", "did not fire", ""),
    ("last_failed", "could not be evaluated", "bad"),
)
_UNTIL = re.compile(r"(.*) until (\d{4}-\d\d-\d\dT\S+)$", re.DOTALL)
"""How the policy says that time alone will make it fire."""


def trigger_sections(asked: Asked, job: Job) -> str:
    """A section for each trigger of the job."""
    present = starts(job.settings)
    if not present:
        return f"<h2>Trigger</h2>{soft('None: only run now starts it.')}"
    shown = trigger_state(job, asked.workspace.store.trigger_state(job.job_id))
    sections = []
    for index, (start, detail) in enumerate(zip(present, shown["trigger_details"], strict=True)):
        title = "Trigger" if len(present) == 1 else f"Trigger {index + 1}"
        known = [
            ("Kind", text(kind_of(start))),
            ("State", mark("paused") if is_paused(start) else mark("active", "good")),
            *((name, value) for name, value in _settings(start)),
            *_memory(detail["state"]),
            ("Held", _held(asked, detail["history"])),
        ]
        word = "resume" if is_paused(start) else "pause"
        change = button(
            asked.form_value, address("local", "jobs", job.job_id, word), word.capitalize(), quiet=True, trigger=index
        )
        sections.append(
            f"<h2>{title}</h2>{facts(known, label=title)}{_looks(detail['history'], title)}"
            f'<div class="row">{change}</div>'
        )
    return "".join(sections)


def holds_until(asked: Asked, job: Job) -> bool:
    """Whether a timer of one of its triggers runs."""
    kept = trigger_state(job, asked.workspace.store.trigger_state(job.job_id))
    details = kept.get("trigger_details", ())
    unpaused = (detail for detail in details if detail["state"].get("pause_status") != "PAUSED")
    return any(_left(asked, detail["history"])[1] > 0 for detail in unpaused)


def _settings(start: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The fields of the trigger under their own names, as text."""
    config = next((value for name, value in start.items() if name != "pause_status" and isinstance(value, dict)), {})
    pairs = []
    for name, value in config.items():
        if name == "pause_status":
            continue
        if name.endswith("_seconds") and isinstance(value, int):
            pairs.append((name, text(f"{value} ({duration(value)})")))
        elif isinstance(value, list):
            pairs.append((name, "<br>".join(code(_line(item)) for item in value)))
        else:
            pairs.append((name, code(_line(value))))
    return pairs


def _line(value: object) -> str:
    if isinstance(value, dict):
        named_first = sorted(value.items(), key=lambda item: not item[0].endswith("_name"))
        return ", ".join(f"{name} {inner}" for name, inner in named_first)
    return str(value)


def _memory(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What `trigger_state` says, flattened."""
    pairs = []
    for kind, inside in state.items():
        if kind == "pause_status" or not isinstance(inside, dict):
            continue
        for name, value in inside.items():
            lines = value if isinstance(value, list) else [value]
            pairs.append((name, "<br>".join(text(_line(line)) for line in lines)))
    return pairs


def _looks(history: Mapping[str, Any], title: str) -> str:
    """The last look of each outcome, newest first."""
    found = [(history[name], word, kind) for name, word, kind in _LOOKS if name in history]
    rows = [
        [
            mark(word, kind),
            text(look["description"]),
            link(address("local", "runs", look["run_id"]), look["run_id"]) if "run_id" in look else "",
            time(look["timestamp"]),
        ]
        for look, word, kind in sorted(found, key=lambda one: -int(one[0]["timestamp"]))
    ]
    if not rows:
        return soft("It has not been looked at yet.")
    return "<h3>Its last looks</h3>" + table(rows, ("It", "Why", "Run", "When"), label=f"{title}: last looks")


def _held(asked: Asked, history: Mapping[str, Any]) -> str:
    timer, left = _left(asked, history)
    return text(f"{timer}: {duration(left)} left") if left > 0 else ""


def _left(asked: Asked, history: Mapping[str, Any]) -> tuple[str, float]:
    """The timer that holds the trigger and the seconds that it has left; 0 where none does."""
    looks = [history[name] for name, _, _ in _LOOKS if name in history]
    newest = max(looks, key=lambda look: int(look["timestamp"]), default={"description": ""})
    found = _UNTIL.match(newest["description"])
    try:
        until = datetime.fromisoformat(found[2]) if found else None
    except ValueError:
        until = None
    if found is None or until is None or until.tzinfo is None:
        return "", 0.0
    now = datetime.fromtimestamp(asked.workspace.now(), UTC)
    return found[1], max((until - now).total_seconds(), 0.0)
