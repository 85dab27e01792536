"""When a table update trigger fires: a commit that changed data, in ANY or in ALL of its tables.

The memory for ALL_UPDATED is per table and has no window: a table counts as updated from its first change until the
trigger fires. Commits that change no data (OPTIMIZE, VACUUM, SET TBLPROPERTIES, CREATE TABLE without rows) do not
count unless `every_commit` is asked for; Databricks' documentation says "data changes" and nothing on OPTIMIZE.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from databricks_bridge.core.policy import Hold, Policy, decide
from databricks_bridge.local.triggers.commits import (
    Commit,
    CommitUnreadable,
    commit_time,
    commit_versions,
    read_commit,
    table_id,
)
from databricks_bridge.local.triggers.outcome import Fire, Held, Outcome, State, to_ms
from databricks_bridge.local.triggers.settings import TableUpdate


@dataclass(frozen=True)
class TableLook:
    """What one look at a table found: its id (None: no table), its newest version, and the commits not seen before."""

    table_id: str | None
    latest: int = -1
    commits: tuple[Commit, ...] = ()


def look_at_table(table: Path, seen: Mapping[str, Any] | None, since: datetime) -> TableLook:
    """Look for commits after those in `seen`, the table's part of the state.

    Without `seen` this is the first look: what is no newer than `since`, when the trigger came to be or was resumed,
    is the baseline. A commit whose file is gone (log cleanup) counts as a change: a run too many is harmless, a lost
    change is not.
    """
    identity = table_id(table)
    if identity is None:
        return TableLook(None)
    # Another table under the name: all of its commits are new.
    after = seen["version"] if seen is not None and seen["table_id"] in (None, identity) else -1
    versions = [version for version in commit_versions(table) if version > after]
    latest, commits = after, []
    for version in versions:
        try:
            if seen is None and commit_time(table, version) <= since:
                latest = version
                continue
            commit = read_commit(table, version)
        except FileNotFoundError:
            continue
        except CommitUnreadable:
            break
        if version > latest + 1 and seen is not None:
            commit = replace(commit, changes_data=True)
        latest = version
        commits.append(commit)
    return TableLook(identity, latest, tuple(commits))


def decide_table_update(
    settings: TableUpdate,
    policy: Policy,
    looks: Mapping[str, TableLook],
    state: State | None,
    now: datetime,
    *,
    every_commit: bool = False,
) -> Outcome:
    """Decide from what was found in each table. `policy` is `settings.policy` with its timers scaled.

    A table that is not there yet starts from nothing: its first data is an update.
    """
    fired_at = None if state is None or state["fired_at"] is None else datetime.fromisoformat(state["fired_at"])
    seen = {} if state is None else state["tables"]
    tables = {name: _absorb(looks[name], seen.get(name), now, every_commit) for name in settings.tables}
    changes = {
        name: None if table["changed_at"] is None else datetime.fromisoformat(table["changed_at"])
        for name, table in tables.items()
    }
    decision = decide(policy, changes, fired_at, now)
    if isinstance(decision, Hold):
        return Held(decision.reason, _state(tables, fired_at), decision.until)
    at_rest = {name: {**table, "changed_at": None, "changed_version": None} for name, table in tables.items()}
    context = {"type": "table_update", "table_update.updated_tables": json.dumps(list(decision.updated))}
    times: dict[str, int] = {}
    for name in decision.updated:
        context[f"table_update.{name}.version"] = str(tables[name]["changed_version"])
        times[f"table_update.{name}.commit_timestamp"] = to_ms(datetime.fromisoformat(tables[name]["changed_at"]))
    return Fire("TABLE", decision.reason, _state(at_rest, now), context=context, times=times)


def _absorb(look: TableLook, seen: Mapping[str, Any] | None, now: datetime, every_commit: bool) -> dict[str, Any]:
    table = dict(seen or {"table_id": None, "version": -1, "changed_at": None, "changed_version": None})
    if look.table_id is None:
        # Dropped, or not there yet. What was seen of it stays seen; the next table of this name starts from nothing.
        return {**table, "table_id": None, "version": -1}
    for commit in look.commits:
        if commit.changes_data or every_commit:
            table["changed_at"] = min(commit.at, now).isoformat()
            table["changed_version"] = commit.version
    return {**table, "table_id": look.table_id, "version": look.latest}


def _state(tables: Mapping[str, Mapping[str, Any]], fired_at: datetime | None) -> State:
    return {"tables": dict(tables), "fired_at": fired_at and fired_at.isoformat()}


def api_state(settings: TableUpdate, state: State | None, *, scalable: bool = False) -> dict[str, Any]:
    """`trigger_state` as jobs/get shows it: `has_seen_updates` since creation or the last time the trigger fired."""
    seen = {} if state is None else state["tables"]
    return {
        "table": {
            "last_seen_table_states": [
                {"table_name": name, "has_seen_updates": bool(seen.get(name, {}).get("changed_at"))}
                for name in (seen or settings.tables)
            ],
            "using_scalable_monitoring": scalable,
        }
    }
