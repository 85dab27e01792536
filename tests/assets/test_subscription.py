from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from databricks_bridge import DatabricksSubscriptionSensor, DeltaTable, Subscription, TriggeredRuns
from databricks_bridge.assets.inlets import with_inlet
from databricks_bridge.core.errors import InvalidArgument

FLIGHTS = DeltaTable("main.silver.flights", databricks_conn_id="ops")


def test_the_asset_is_named_by_the_subscription_alone() -> None:
    one = Subscription("delays", FLIGHTS, start="latest")
    other = Subscription("delays", [TriggeredRuns(job_id=1)], start="earliest", condition="ALL_UPDATED")
    assert one.asset == other.asset
    assert (one.asset.name, one.asset.uri) == ("databricks_bridge.delays", "x-databricks-bridge://subscription/delays")


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 200, "a..b"])
def test_every_name_that_is_taken_is_a_uri_that_airflow_takes(name: str) -> None:
    assert Subscription(name, FLIGHTS, start="latest").asset.uri == f"x-databricks-bridge://subscription/{name}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "it has no default"),
        ({"start": "newest"}, "start of subscription 'delays' is 'newest'"),
        ({"start": "latest", "condition": "SOME"}, "condition is 'SOME'"),
        ({"start": "latest", "min_time_between_triggers": timedelta(seconds=-5)}, "min_time_between_triggers is -5 s"),
        ({"start": "latest", "wait_after_last_change": 60}, "wait_after_last_change is 60"),
    ],
)
def test_mistakes_are_import_errors_that_say_what_to_give(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Subscription("delays", [FLIGHTS], **arguments)
    assert words in str(refused.value)
    assert isinstance(refused.value, ValueError)


def test_it_shows_itself_by_its_name() -> None:
    assert repr(Subscription("delays", FLIGHTS, start="latest")) == "Subscription('delays', 1 sources)"


ASSET, OTHER = Asset("mine"), Asset("other")


@pytest.mark.parametrize(
    ("given", "inlets"),
    [
        ({}, [ASSET]),
        ({"inlets": None}, [ASSET]),
        ({"inlets": []}, [ASSET]),
        ({"inlets": OTHER}, [OTHER, ASSET]),
        ({"inlets": [OTHER]}, [OTHER, ASSET]),
        ({"inlets": (OTHER, ASSET)}, [OTHER, ASSET]),
        ({"inlets": [ASSET]}, [ASSET]),
        ({"inlets": ASSET}, [ASSET]),
    ],
)
def test_the_inlet_is_added_once(given: dict[str, Any], inlets: list[Asset]) -> None:
    before = dict(given)
    assert with_inlet({"task_id": "t", **given}, SimpleNamespace(asset=ASSET)) == {"task_id": "t", "inlets": inlets}
    assert given == before


@pytest.mark.parametrize("subscription", ["delays", None, ASSET])
def test_what_is_no_subscription_is_refused_at_parse(subscription: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"give a databricks_bridge\.Subscription"):
        DatabricksSubscriptionSensor(task_id="t", subscription=subscription)


HEAVY = ("aiohttp", "databricks.sdk", "deltalake", "obstore", "pyspark", "pandas", "fastapi")


def test_the_public_names_cost_airflow_sdk_and_no_more() -> None:
    program = (
        "import sys, airflow.sdk; before = set(sys.modules)\n"
        "import databricks_bridge\n"
        "for name in databricks_bridge.__all__: getattr(databricks_bridge, name)\n"
        f"print(*(m for m in {HEAVY!r} if m in set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == []
