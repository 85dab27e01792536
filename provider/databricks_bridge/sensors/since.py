"""Where a plain wait begins: at `since`, by default at the DAG run's `run_after`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.operators.arguments import is_late

if TYPE_CHECKING:
    from airflow.sdk import Context


def check_since(since: object) -> None:
    """Raise InvalidArgument for a `since` that cannot work, as far as that is known at parse."""
    if since and not is_late(since):
        _moment(since)


def since_of(since: datetime | str | None, context: Context) -> datetime:
    """The aware moment. Raises InvalidArgument for what is no time, or a time without a zone."""
    return _moment(since or context["dag_run"].run_after)


def _moment(given: object) -> datetime:
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidArgument(f"since is {given!r}; give an aware datetime or ISO text with a zone") from error
    if not isinstance(moment, datetime):
        raise InvalidArgument(f"since is {given!r}; give an aware datetime or ISO text with a zone")
    if moment.tzinfo is None:
        raise InvalidArgument(f"since is {given!r}, without a time zone; give an aware datetime")
    return moment
