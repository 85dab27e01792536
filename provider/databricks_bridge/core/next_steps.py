"""What a person can do about a source that needs a decision, as the exact commands."""

from __future__ import annotations

from databricks_bridge.core.positions import BEFORE_FIRST

WHY = '--why "..."'


def adopt(subscription: str, alias: str, position: int | str) -> str:
    """The command that puts the source's watermark at a position of the table that has the name now."""
    return f"databricks-bridge watermark adopt {subscription} {alias} {position} {WHY}"


def decision(subscription: str, alias: str, newest: int, argument: str) -> str:
    """Both ways to go on from a table that does not continue the watermark, for the end of an error.

    :param newest: its newest version, -1 where it has none
    :param argument: the subscription's argument that decides it for good
    """
    only_new = (
        "" if newest == BEFORE_FIRST else f", or to process only what comes after: {adopt(subscription, alias, newest)}"
    )
    return (
        f"To process all that is there now: {adopt(subscription, alias, 'earliest')}{only_new}; then clear the task. To have it "
        f'decided every time, give the subscription {argument}="full_rebuild" or "adopt"'
    )
