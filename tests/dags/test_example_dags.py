"""The example DAGs are documentation that is run: here they are parsed, in the demo they do their work."""

from __future__ import annotations

import importlib.util
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from airflow.sdk import DAG

FOLDER = Path(__file__).resolve().parents[2] / "dags"
FILES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "bridge_timers")


@pytest.fixture(params=["short", "production"])
def timers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW_VAR_BRIDGE_TIMERS", request.param)
    return str(request.param)


def parsed(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "bridge_timers", raising=False)
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dag_of(module: ModuleType) -> DAG:
    """The DAG of the file, found by its tasks."""
    return next(value.dag for value in vars(module).values() if hasattr(value, "task_id"))


def test_there_are_examples() -> None:
    assert FILES == ["after_bronze", "delays_by_weather"]


@pytest.mark.parametrize("name", FILES)
def test_an_example_is_parsed_with_either_timers(name: str, timers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dag = dag_of(parsed(name, monkeypatch))
    assert dag.dag_id == name
    assert dag.max_active_runs == 1


@pytest.mark.parametrize("name", FILES)
def test_a_word_that_names_no_timers_is_said_at_parse(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_BRIDGE_TIMERS", "fast")
    with pytest.raises(ValueError, match="bridge_timers is 'fast'; it must be one of production, short"):
        parsed(name, monkeypatch)


@pytest.mark.parametrize("name", FILES)
def test_a_continuous_example_gets_another_logical_date_for_its_second_run(
    name: str, timers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a start date the first interval of "@continuous" is empty, the second run has the logical date of the
    first, and Airflow 3.3.2 skips it for ever ("run already exists")."""
    from airflow.timetables.base import TimeRestriction
    from airflow.timetables.simple import ContinuousTimetable

    start: Any = dag_of(parsed(name, monkeypatch)).start_date
    assert start is not None
    assert start < datetime.now(UTC) - timedelta(days=1)
    restriction = TimeRestriction(earliest=start, latest=None, catchup=False)
    first = ContinuousTimetable().next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    assert first is not None
    second = ContinuousTimetable().next_dagrun_info(
        last_automated_data_interval=first.data_interval, restriction=restriction
    )
    assert second is not None
    assert first.logical_date != second.logical_date
