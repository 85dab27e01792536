from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSensorTimeout, TaskDeferred

from databricks_bridge import DeltaTable, DeltaVersionSensor
from databricks_bridge.core.errors import InvalidArgument, NotFound
from databricks_bridge.delta.resolve import open_table
from databricks_bridge.feeds.versions import Wanted, moved
from databricks_bridge.triggers.delta_version import DeltaVersionTrigger

EARLY = datetime(2020, 1, 1, tzinfo=UTC)
TABLE = DeltaTable("main.silver.flights", "ops")


def sensor(**arguments: Any) -> DeltaVersionSensor:
    return DeltaVersionSensor(task_id="wait", **({"table": "main.silver.flights"} | arguments))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"table": "flights"}, "three-part name"),
        ({"newer_than": 3, "since": EARLY}, "newer_than or since, not both"),
    ],
)
def test_mistakes_are_refused_at_parse(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        sensor(**arguments)


def test_template_fields_are_attributes() -> None:
    one = sensor()
    assert [name for name in one.template_fields if not hasattr(one, name)] == []


def test_a_name_with_its_connection_is_the_same_as_a_table() -> None:
    assert sensor(databricks_conn_id="ops").table == sensor(table=TABLE).table


def test_it_defers_with_plain_json_and_an_absolute_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any, wanted: Wanted) -> None:
        return None

    monkeypatch.setattr(DeltaVersionSensor, "_look_once", nothing)
    one = sensor(table=TABLE, newer_than="7", since=None, deferrable=True, timeout=60, poke_interval=5)
    with pytest.raises(TaskDeferred) as deferred:
        one.execute({"dag_run": type("Run", (), {"run_after": EARLY})()})
    path, arguments = deferred.value.trigger.serialize()
    assert path == "databricks_bridge.triggers.delta_version.DeltaVersionTrigger"
    assert json.loads(json.dumps(arguments)) == arguments
    assert (arguments["newer_than"], arguments["since"], arguments["poll_interval"]) == (7, EARLY.isoformat(), 5.0)
    left = datetime.fromisoformat(arguments["deadline"]) - datetime.now(UTC)
    assert timedelta(seconds=50) < left <= timedelta(seconds=60)
    assert DeltaTable(**arguments["table"]) == TABLE


def test_its_events_are_taken_or_raised() -> None:
    found = {"table": "t", "table_id": None, "version": 3, "data_version": 3, "committed_at": None}
    assert sensor().execute_complete({}, {"status": "ready", "deadline": "d", **found}) == found
    with pytest.raises(AirflowSensorTimeout, match=r"new data in main\.silver\.flights: not until d"):
        sensor().execute_complete({}, {"status": "deadline", "deadline": "d"})
    with pytest.raises(NotFound, match="gone"):
        sensor().execute_complete({}, {"status": "error", "error": "NotFound", "message": "gone"})


async def test_only_data_above_the_version_or_after_the_moment_counts(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable as Rust
    from deltalake import write_deltalake

    path = str(tmp_path / "t")
    for _ in range(3):
        write_deltalake(path, pa.table({"n": [1]}), mode="append")
    Rust(path).optimize.compact()
    source = await open_table(None, path)
    assert (await source.latest(None)).version == 3  # type: ignore[union-attr]

    async def look(newer_than: int | None, since: datetime = EARLY) -> dict[str, Any] | None:
        return await moved(await open_table(None, path), TABLE, Wanted(newer_than, since))

    found = await look(1)
    assert found is not None
    assert (found["version"], found["data_version"]) == (3, 2)
    assert await look(2) is None
    assert await look(None) is not None
    assert await look(None, datetime.now(UTC) + timedelta(hours=1)) is None


def test_the_trigger_s_constructor_takes_anything() -> None:
    arguments: dict[str, Any] = {"table": None, "newer_than": "x", "since": 5, "poll_interval": None, "deadline": []}
    assert DeltaVersionTrigger(**arguments).serialize()[1] == arguments
