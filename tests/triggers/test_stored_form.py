"""Triggers as Airflow stores them: class path and arguments, plain JSON, the same for the same wait."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger

from databricks_bridge.triggers.run import RunTrigger
from databricks_bridge.triggers.subscription import SubscriptionTrigger
from databricks_bridge.triggers.triggered_run import TriggeredRunTrigger
from tests.core.builders import FLIGHTS, WEATHER, at, spec_of

COMMON = {"poll_interval": 30.0, "deadline": "2026-01-01T00:00:00+00:00"}
TRIGGERS: list[BaseTrigger] = [
    RunTrigger(databricks_conn_id="ops", run_id=11, **COMMON),
    SubscriptionTrigger(
        subscription=spec_of(FLIGHTS, WEATHER).to_json(),
        watermarks={"flights": at(3).to_json()},
        last_claimed_at=None,
        **COMMON,
    ),
    TriggeredRunTrigger(
        databricks_conn_id="ops",
        job_id=None,
        job_name="bronze",
        triggers=["TABLE", "FILE_ARRIVAL"],
        run_state=["SUCCESS"],
        since="2026-01-01T00:00:00+00:00",
        **COMMON,
    ),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda one: type(one).__name__)
def test_what_is_stored_makes_the_same_trigger(trigger: BaseTrigger) -> None:
    path, kwargs = trigger.serialize()
    module, _, name = path.rpartition(".")
    kind = getattr(import_module(module), name)
    assert kind is type(trigger)
    text = json.dumps(kwargs, sort_keys=True)
    again = kind(**json.loads(text)).serialize()
    assert again[0] == path
    assert json.dumps(again[1], sort_keys=True) == text


def test_the_order_in_which_an_author_names_things_does_not_show() -> None:
    one = TRIGGERS[2].serialize()[1] | {"triggers": ["TABLE", "FILE_ARRIVAL"]}
    other = one | {"triggers": ["FILE_ARRIVAL", "TABLE"]}
    assert TriggeredRunTrigger(**one).serialize() == TriggeredRunTrigger(**other).serialize()


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("garbage", [None, "", -1, [], {}, object()], ids=lambda one: type(one).__name__)
def test_a_constructor_never_raises(trigger: BaseTrigger, garbage: Any) -> None:
    kind: Any = type(trigger)
    kind(**dict.fromkeys(trigger.serialize()[1], garbage))


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda one: type(one).__name__)
async def test_cleanup_may_come_before_the_first_look_and_twice(trigger: BaseTrigger) -> None:
    await trigger.cleanup()
    await trigger.cleanup()
