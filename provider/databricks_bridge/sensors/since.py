"""Where a plain wait begins: at `since`, by default at the DAG run's `run_after`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from databricks_bridge.core.errors import InvalidArgument

if TYPE_CHECKING:
    from airflow.sdk import Context


def since_of(since: datetime | str | None, context: Context) -> datetime:
    """The aware moment. Raises InvalidArgument for text that is no time, or a time without a zone."""
    given = since or context["dag_run"].run_after
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidArgument(f"since is {given!r}; give an aware datetime or ISO text with a zone") from error
    if moment.tzinfo is None:
        raise InvalidArgument(f"since is {given!r}, without a time zone; give an aware datetime")
    return moment
