"""What the local workspace does not serve: one list, which the server and the engine answer from and the documents show.

Each entry is one thing that Databricks has and this workspace refuses: an API family, a task kind, a setting, a SQL
statement, an option of Auto Loader, a notebook utility, a key of a bundle, a client. The code that refuses takes its words
from here, so that what a document says is what a user reads. `python -m databricks_bridge.local.refusals docs` writes the
tables between the markers of the documents; `tests/local/test_refusals.py` holds both equal.
"""

from __future__ import annotations

from databricks_bridge.local.refusals import api, autoloader, bundle, clients, notebooks, settings, sql, tasks
from databricks_bridge.local.refusals.model import Area, Refusal

ALL: tuple[Refusal, ...] = (
    *api.REFUSALS,
    *tasks.REFUSALS,
    *settings.REFUSALS,
    *sql.REFUSALS,
    *autoloader.REFUSALS,
    *notebooks.REFUSALS,
    *bundle.REFUSALS,
    *clients.REFUSALS,
)
_BY_NAME = {(entry.area, entry.name): entry for entry in ALL}


def words(area: Area, name: str) -> str:
    """The words with which `name` is refused. Raises KeyError for what is not in the list."""
    return _BY_NAME[area, name].words


def names(area: Area) -> tuple[str, ...]:
    """What is not served in an area, in the order of the list."""
    return tuple(entry.name for entry in ALL if entry.area is area)


__all__ = ["ALL", "Area", "Refusal", "names", "words"]
