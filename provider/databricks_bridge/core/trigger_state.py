"""What `jobs/get` says of a job's triggers: whether one can fire a run that is waited for, and what each last did.

Facts: Jobs API 2.2. A job has `trigger`, `schedule` or `continuous`, or a list `triggers`. What a trigger last did is in
`trigger_details[].history` (`last_triggered`, `last_not_triggered`, `last_failed`), which is promised for `triggers`
alone: for the other shapes it may be missing. A trigger that cannot be evaluated makes no run; only `last_failed` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_FIRES = {
    "file_arrival": frozenset({"FILE_ARRIVAL"}),
    "table_update": frozenset({"TABLE"}),
    "table": frozenset({"TABLE"}),
    "periodic": frozenset({"PERIODIC"}),
    "schedule": frozenset({"PERIODIC"}),
    "continuous": frozenset({"CONTINUOUS", "CONTINUOUS_RESTART"}),
    "model": frozenset({"MODEL"}),
    "job_completion": frozenset({"JOB_COMPLETION"}),
}
"""Under which name a trigger stands in the settings, and what `run.trigger` says of its runs."""

_BESIDE_THE_KIND = ("pause_status", "sql_condition")
_BY_NO_TRIGGER = frozenset({"ONE_TIME", "RETRY", "RUN_JOB_TASK"})


@dataclass(frozen=True)
class Finding:
    """A reason why no run may come. `key` names the state, the same for as long as it lasts; `blocking`: none can come
    before a person resumes a trigger.
    """

    key: str
    message: str
    blocking: bool = False


@dataclass(frozen=True)
class JobTrigger:
    """One trigger of a job. `fires` is None for a kind that is new to us: it may fire anything."""

    kind: str
    fires: frozenset[str] | None
    paused: bool
    history: Mapping[str, Any]


def triggers_of(job: Mapping[str, Any]) -> list[JobTrigger]:
    """All that starts the job by itself, from an answer of `jobs/get`. Never raises."""
    settings = _mapping(job.get("settings"))
    entries = [_mapping(one) for one in _list(settings.get("triggers"))]
    entries += [_mapping(settings["trigger"])] if settings.get("trigger") is not None else []
    for name in ("schedule", "continuous"):
        if settings.get(name) is not None:
            entries.append({name: settings[name], "pause_status": _mapping(settings[name]).get("pause_status")})
    details = [_mapping(one) for one in _list(job.get("trigger_details"))]
    states = [_mapping(one.get("state")) for one in details] or [_mapping(job.get("trigger_state"))]
    told = len(details) == len(entries)
    return [
        _trigger(
            entry,
            _mapping(states[at]) if len(states) == len(entries) else {},
            _mapping(details[at].get("history")) if told else {},
        )
        for at, entry in enumerate(entries)
    ]


def findings(job: Mapping[str, Any], wanted: frozenset[str]) -> list[Finding]:
    """Why no run of the `wanted` kinds (values of `run.trigger`) may come; empty where nothing speaks against one."""
    triggers = triggers_of(job)
    ours = [(at, one) for at, one in enumerate(triggers) if one.fires is not None and one.fires & wanted]
    others = any(one.fires is None for one in triggers) or bool(wanted & _BY_NO_TRIGGER)
    if not ours:
        return [] if others else [Finding("none", _none(job, triggers, wanted))]
    stopped = all(one.paused for _, one in ours) and not others
    found = []
    for at, one in ours:
        if one.paused:
            found.append(Finding(f"paused {at}", _paused(job, one, wanted, stopped), blocking=stopped))
        elif failed := _failed(one):
            message = f"the {one.kind} trigger of {_named(job)} {_failure(failed)}"
            found.append(Finding(f"failed {at} {_words(failed)}", message))
    return found


def last_words(job: Mapping[str, Any], wanted: frozenset[str]) -> str:
    """What the triggers that fire the `wanted` kinds last did, for who has waited in vain."""
    triggers = triggers_of(job)
    ours = [one for one in triggers if one.fires is not None and one.fires & wanted]
    if not ours:
        return "; ".join(one.message for one in findings(job, wanted))
    return "; ".join(f"the {one.kind} trigger of {_named(job)} {_deeds(one)}" for one in ours)


def _trigger(entry: Mapping[str, Any], state: Mapping[str, Any], history: Mapping[str, Any]) -> JobTrigger:
    present = [name for name, value in entry.items() if value is not None and name not in _BESIDE_THE_KIND]
    kinds = [name for name in present if name in _FIRES]
    paused = "PAUSED" in (entry.get("pause_status"), state.get("pause_status"))
    if not kinds:
        return JobTrigger(" ".join(map(str, present)) or "unknown", None, paused, history)
    return JobTrigger(kinds[0], _FIRES[kinds[0]], paused, history)


def _none(job: Mapping[str, Any], triggers: Iterable[JobTrigger], wanted: frozenset[str]) -> str:
    has = ", ".join(f"{one.kind} ({_kinds(one.fires or ())})" for one in triggers) or "none at all"
    return (
        f"{_named(job)} has no trigger that fires runs of {_kinds(wanted)}: it has {has}; name in triggers= what fires it, "
        "or give the job such a trigger"
    )


def _paused(job: Mapping[str, Any], one: JobTrigger, wanted: frozenset[str], stopped: bool) -> str:
    until = f"no run of {_kinds(wanted)} will be fired" if stopped else "it fires nothing"
    return (
        f"the {one.kind} trigger of {_named(job)} is paused: {until} until it is resumed, on the job's page or by "
        "jobs/update with pause_status UNPAUSED; it does not make up for what it misses meanwhile"
    )


def _failed(one: JobTrigger) -> Mapping[str, Any] | None:
    """The last evaluation, if it failed."""
    failed = one.history.get("last_failed")
    if not isinstance(failed, Mapping):
        return None
    others = [one.history[name] for name in ("last_triggered", "last_not_triggered") if one.history.get(name)]
    return failed if _stamp(failed) > max((_stamp(_mapping(line)) for line in others), default=-1) else None


def _failure(failed: Mapping[str, Any]) -> str:
    return f"could not be evaluated at {_time(failed)}, and fires nothing until it can: {_words(failed)}"


def _deeds(one: JobTrigger) -> str:
    fired, held = (_mapping(one.history.get(name)) for name in ("last_triggered", "last_not_triggered"))
    deeds = ["is paused"] if one.paused else []
    if fired:
        run = f" as run {fired['run_id']}" if fired.get("run_id") else ""
        deeds.append(f"last fired at {_time(fired)}{run} ({_words(fired)})")
    elif one.history:
        deeds.append("has not fired yet")
    if held:
        deeds.append(f"was looked at at {_time(held)} and did not fire: {_words(held)}")
    if failed := _failed(one):
        deeds.append(_failure(failed))
    if not one.history:
        deeds.append("has no history that jobs/get would show")
    if one.kind == "file_arrival":
        deeds.append("takes a file that is written again under its old name for no arrival")
    return ", ".join(deeds)


def _named(job: Mapping[str, Any]) -> str:
    name = _mapping(job.get("settings")).get("name")
    return f"job {job.get('job_id')}" + (f" ({name!r})" if name else "")


def _kinds(kinds: Iterable[str]) -> str:
    return ", ".join(sorted(kinds)) or "unknown to us"


def _words(line: Mapping[str, Any]) -> str:
    return str(line.get("description") or "no reason is given")


def _stamp(line: Mapping[str, Any]) -> float:
    stamp = line.get("timestamp")
    return float(stamp) if isinstance(stamp, int | float) else 0.0


def _time(line: Mapping[str, Any]) -> str:
    try:
        return datetime.fromtimestamp(_stamp(line) / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
