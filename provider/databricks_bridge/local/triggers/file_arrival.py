"""When a file arrival trigger fires: a name that was not there at the last look.

As on Databricks an overwrite is no arrival. A name that was seen to be gone and is there again is one; deleted and
written again between two looks it cannot be told from an overwrite. Files that were there before the trigger do not
count. A path that does not exist is an empty one and fires nothing (as on S3; ADLS reports an error).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from databricks_bridge.core.policy import Hold, Policy, decide
from databricks_bridge.local.triggers.outcome import Fire, Held, Outcome, State
from databricks_bridge.local.triggers.settings import FileArrival

FILE_LIMIT = 10_000
"""Files in the path beyond which a trigger cannot be evaluated without file events (resource limits)."""


def list_files(folder: Path) -> dict[str, datetime]:
    """Modification time of every file below `folder`, by its path relative to it.

    Names that start with "." or "_", and folders of such names, are left out: temporary and commit files of writers. So
    are links: storage of a volume has none, and they could lead anywhere.
    A file that disappears while listing is not there.
    """
    found: dict[str, datetime] = {}
    folders = [folder]
    while folders:
        current = folders.pop()
        try:
            entries = list(current.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            if entry.name.startswith((".", "_")) or entry.is_symlink():
                continue
            if entry.is_dir():
                folders.append(entry)
                continue
            try:
                modified = entry.stat().st_mtime
            except FileNotFoundError:
                continue
            found[entry.relative_to(folder).as_posix()] = datetime.fromtimestamp(modified, UTC)
    return found


def decide_file_arrival(
    settings: FileArrival,
    policy: Policy,
    files: Mapping[str, datetime],
    state: State | None,
    now: datetime,
    since: datetime,
) -> Outcome:
    """Decide from the files that are there `now`.

    `policy` is `settings.policy` with its timers scaled. `since` is when the trigger came to be or was resumed; it is
    used at the first look alone, where files no newer than it are the baseline.
    """
    if state is None or state["url"] != settings.url:
        known = {name for name, modified in files.items() if modified <= since}
        state = _state(settings.url, known, None, 0, None, since)
    known, last_look = set(state["names"]), datetime.fromisoformat(state["looked_at"])
    new = [name for name in files if name not in known]
    changed_at = _time(state["changed_at"])
    if new:
        # An arrival lies between two looks, whatever modification time the file brought along.
        newest = min(max(max(files[name] for name in new), last_look), now)
        changed_at = max(changed_at, newest) if changed_at else newest
    arrived, fired_at = state["arrived"] + len(new), _time(state["fired_at"])
    decision = decide(policy, {settings.url: changed_at}, fired_at, now)
    if isinstance(decision, Hold):
        reason = decision.reason if arrived else f"no new files in {settings.url}"
        return Held(reason, _state(settings.url, files, changed_at, arrived, fired_at, now), decision.until)
    return Fire(
        "FILE_ARRIVAL",
        f"{arrived} new file(s) in {settings.url}",
        _state(settings.url, files, None, 0, now, now),
        context={"type": "file_arrival", "file_arrival.location": settings.url},
    )


def _state(
    url: str,
    names: Mapping[str, datetime] | set[str],
    changed_at: datetime | None,
    arrived: int,
    fired_at: datetime | None,
    looked_at: datetime,
) -> State:
    return {
        "url": url,
        "names": sorted(names),
        "changed_at": changed_at and changed_at.isoformat(),
        "arrived": arrived,
        "fired_at": fired_at and fired_at.isoformat(),
        "looked_at": looked_at.isoformat(),
    }


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
