from __future__ import annotations

import json
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
        ({"start": "latest", "wait_after_last_change": timedelta(days=-1)}, "a timer cannot be negative"),
        ({"start": "latest", "min_time_between_triggers": None}, "min_time_between_triggers is None"),
        ({"start": "latest", "condition": ["ANY_UPDATED"]}, "condition is ['ANY_UPDATED']"),
        ({"start": ["latest"]}, "start of subscription 'delays' is ['latest']"),
        ({"start": 5}, "start of subscription 'delays' is 5"),
        ({"start": "latest", "on_recreated": "skip"}, "on_recreated is 'skip'; use one of fail, full_rebuild, adopt"),
        ({"start": "latest", "on_replaced": None}, "on_replaced is None"),
        ({"start": "latest", "on_history_gap": True}, "on_history_gap is True"),
        ({"start": "latest", "max_commits_per_run": 0}, "max_commits_per_run of subscription 'delays' is 0"),
        ({"start": "latest", "ledger": "s4://bucket"}, "ledger is 's4://bucket'"),
        ({"start": "latest", "ledger": 5}, "ledger is 5"),
        ({"start": "latest", "poll_interval": 30}, "poll_interval is 30; give a positive timedelta"),
        ({"start": "latest", "resend_after": timedelta(0)}, "resend_after is datetime.timedelta(0)"),
        ({"start": "latest", "formerly": "old"}, "formerly of subscription 'delays' is 'old'; give a list of names"),
        ({"start": "latest", "formerly": 5}, "formerly of subscription 'delays' is 5"),
        ({"start": "latest", "formerly": ["a b"]}, "subscription name 'a b'"),
        ({"start": "latest", "expected_run_time": 5}, "expected_run_time is 5"),
    ],
)
def test_mistakes_are_import_errors_that_say_what_to_give(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Subscription("delays", [FLIGHTS], **arguments)
    assert words in str(refused.value)
    assert isinstance(refused.value, ValueError)


def test_one_alias_twice_is_an_import_error_that_names_it() -> None:
    with pytest.raises(InvalidArgument, match=r"subscription 'delays': alias flights is used twice; give alias="):
        Subscription("delays", [FLIGHTS, DeltaTable("main.gold.flights")], start="latest")


def test_E11_the_watcher_carries_plain_json_the_same_at_every_parse() -> None:
    def watched() -> tuple[str, dict[str, Any]]:
        subscription = Subscription(
            "delays",
            [FLIGHTS, TriggeredRuns(job_name="bronze", triggers={"FILE_ARRIVAL", "TABLE_UPDATE"})],
            start="latest",
            min_time_between_triggers=timedelta(minutes=10),
            poll_interval=timedelta(seconds=7.5),
            expected_run_time=timedelta(hours=2),
            on_stuck_claim=lambda claim: None,
        )
        (watcher,) = subscription.asset.watchers
        path, arguments = watcher.trigger.serialize()
        return path, arguments

    (path, arguments), again = watched(), watched()
    assert json.loads(json.dumps(arguments)) == arguments, "no set, tuple, timedelta or callable"
    assert (path, arguments) == again
    assert arguments["poll_interval"] == 7.5
    assert arguments["subscription"]["min_time_between_triggers"] == 600.0


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


def test_E15_the_public_names_cost_airflow_sdk_and_no_more() -> None:
    program = (
        "import sys, airflow.sdk; before = set(sys.modules)\n"
        "import databricks_bridge\n"
        "for name in databricks_bridge.__all__: getattr(databricks_bridge, name)\n"
        f"print(*(m for m in {HEAVY!r} if m in set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == []


def test_a_subscription_whose_record_can_never_fit_is_refused_with_how_many_do() -> None:
    def many(count: int, **more: Any) -> Subscription:
        return Subscription("s", [DeltaTable(f"main.silver.table_{n}") for n in range(count)], start="latest", **more)

    with pytest.raises(
        InvalidArgument, match=r"has 40 sources; the Airflow ledger keeps 49152 bytes, .* room for (\d+)"
    ) as told:
        many(40)
    fit = int(str(told.value).split("room for ")[1].split()[0])
    many(fit)
    with pytest.raises(InvalidArgument):
        many(fit + 1)
    many(40, ledger="s3://bucket/prefix")
