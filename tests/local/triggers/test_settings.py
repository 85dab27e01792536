"""Job settings, as the jobs API keeps them, become one value for each kind of trigger."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.policy import Condition, Policy
from databricks_bridge.local.runs.starts import starts
from databricks_bridge.local.triggers.quartz import parse_quartz
from databricks_bridge.local.triggers.settings import (
    Continuous,
    FileArrival,
    JobCompletion,
    Kind,
    Periodic,
    Schedule,
    TableUpdate,
    parse_start,
)

URL = "/Volumes/main/landing/flights/"
TIMERS = {"min_time_between_triggers_seconds": 120, "wait_after_last_change_seconds": 60}
POLICY = Policy(min_time_between_triggers=timedelta(minutes=2), wait_after_last_change=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (
            {"schedule": {"quartz_cron_expression": "0 0 * * * ?", "timezone_id": "Asia/Tokyo"}},
            Schedule(parse_quartz("0 0 * * * ?"), ZoneInfo("Asia/Tokyo")),
        ),
        ({"continuous": {}}, Continuous()),
        ({"trigger": {"file_arrival": {"url": URL}}}, FileArrival(URL, Policy())),
        ({"trigger": {"file_arrival": {"url": URL, **TIMERS}}}, FileArrival(URL, POLICY)),
        (
            {"trigger": {"file_arrival": {"url": "/Volumes/Main/Landing/Flights/Raw/"}}},
            FileArrival("/Volumes/main/landing/flights/Raw/", Policy()),
        ),
        (
            {"trigger": {"table_update": {"table_names": ["Main.silver.Flights"], "condition": "ALL_UPDATED"}}},
            TableUpdate(("main.silver.flights",), Policy(condition=Condition.ALL_UPDATED)),
        ),
        ({"trigger": {"periodic": {"interval": 2, "unit": "WEEKS"}}}, Periodic(timedelta(weeks=2))),
        (
            {"trigger": {"job_completion": {"jobs": [{"workspace_id": "1001", "job_id": 7}]}}},
            JobCompletion((("1001", "7"),), "SUCCESS"),
        ),
    ],
)
def test_each_kind(settings: dict[str, Any], kind: Kind) -> None:
    (start,) = starts(settings)
    assert parse_start(start) == kind


def test_an_unknown_kind_is_an_error_with_its_name() -> None:
    with pytest.raises(InvalidArgument, match="moon, pause_status"):
        parse_start({"pause_status": "UNPAUSED", "moon": {}})
