"""What is documented in two ways, or not at all, can be switched: each of these is off, which is the default."""

from __future__ import annotations

from dataclasses import dataclass, fields

from databricks_bridge.local.store import Store


@dataclass(frozen=True)
class Switches:
    """`every_commit`: table update triggers fire on commits that change no data too, such as OPTIMIZE.

    `file_events`: the limits of file arrival and table update triggers that file events lift are lifted.
    `cooldown_after_run`: `min_time_between_triggers` counts from the end of the run before, as the UI's documentation
    says, and not from the last time the trigger fired, as the API's says.
    `refuse_missing_tables`: a table update trigger on a table that is not there is refused, as the service does.
    """

    every_commit: bool = False
    file_events: bool = False
    cooldown_after_run: bool = False
    refuse_missing_tables: bool = False


NAMES = tuple(field.name for field in fields(Switches))


def read_switches(store: Store) -> Switches:
    """As they stand for the whole deployment."""
    on = {row["key"].partition(":")[2] for row in store.query("SELECT key FROM meta WHERE key LIKE 'switch:%'")}
    return Switches(**{name: name in on for name in NAMES})


def set_switch(store: Store, name: str, on: bool) -> None:
    """One of `NAMES`."""
    assert name in NAMES, f"no switch {name}"
    with store.transaction() as db:
        db.execute("DELETE FROM meta WHERE key = ?", (f"switch:{name}",))
        if on:
            db.execute("INSERT INTO meta VALUES (?, 1)", (f"switch:{name}",))
