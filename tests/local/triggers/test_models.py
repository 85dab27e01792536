"""Model triggers over the loop, with a clock that the test moves, and once over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.deployment import deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.triggers.model import ModelEvent, append_event
from tests.local.local_kit import Api, Notebooks, client, eventually, write_notebook
from tests.local.triggers.site import Site


def on_models(condition: str, **more: Any) -> dict[str, Any]:
    return {"trigger": {"model": {"condition": condition, **more}}}


@pytest.fixture
def happens(site: Site) -> Callable[..., None]:
    site.layout.metastore_root("ops").mkdir(parents=True)

    def event(name: str, model: str, alias: str | None = None) -> None:
        append_event(site.layout, "ops", ModelEvent(name, model, round(site.clock.at * 1000), alias))

    return event


async def test_each_condition_hears_its_own_events_within_its_name(site: Site, happens: Any) -> None:
    happens("MODEL_CREATED", "main.ml.before")
    site.jobs.put(1, on_models("MODEL_CREATED", securable_name="main.ml"))
    site.jobs.put(2, on_models("MODEL_VERSION_READY", securable_name="Main.ML.delays"))
    site.jobs.put(3, on_models("MODEL_ALIAS_SET", aliases=["champion"]))
    site.jobs.put(4, on_models("MODEL_ALIAS_SET", securable_name="main.m"))
    await site.until(61)
    assert site.fired() == []
    happens("MODEL_CREATED", "main.ml.delays")
    happens("MODEL_VERSION_READY", "main.ml.delays2")
    happens("MODEL_ALIAS_SET", "main.ml.delays", "challenger")
    await site.until(125)
    assert site.fired() == [1]
    happens("MODEL_VERSION_READY", "main.ml.delays")
    happens("MODEL_ALIAS_SET", "other.x.y", "champion")
    await site.until(190)
    assert site.fired() == [1, 2, 3]
    assert {run.trigger for run in site.jobs.started} == {"MODEL"}
    site.scheduler = site.new_scheduler()
    await site.until(320)
    assert site.fired() == [1, 2, 3]


async def test_timers_hold_model_triggers_too(site: Site, happens: Any) -> None:
    site.jobs.put(1, on_models("MODEL_CREATED", wait_after_last_change_seconds=60))
    await site.until(1)
    for second in (30, 80, 130):
        await site.until(second)
        happens("MODEL_CREATED", f"main.ml.m{second}")
    await site.until(189)
    assert site.fired() == []
    await site.until(191)
    assert site.fired() == [1]


def test_a_declared_event_starts_a_run_that_the_sdk_cannot_name(tmp_path: Path) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    notebooks = Notebooks()
    with deployment_in_thread(tmp_path, ["ops"], engine=InstantEngine(notebooks.run), time_scale=0.01) as up:
        sdk = client(up, "ops")
        api = Api(sdk)
        task = {"task_key": "main", "notebook_task": {"notebook_path": write_notebook(up, "ops", "main")}}
        job_id = api.post("create", name="j", tasks=[task], **on_models("MODEL_CREATED"))["job_id"]

        def state() -> dict[str, Any]:
            return dict(api.get("get", job_id=job_id, include_trigger_state="true")["trigger_state"])

        eventually(lambda: "model" in state())
        assert state() == {"pause_status": "UNPAUSED", "model": {}}
        with pytest.raises(InvalidParameterValue, match=r"give catalog\.schema\.model"):
            sdk.api_client.do("POST", "/local/model-events", body={"event": "MODEL_CREATED", "model": "x"})
        sdk.api_client.do("POST", "/local/model-events", body={"event": "MODEL_CREATED", "model": "Main.ml.x"})
        run = eventually(lambda: api.get("runs/list", job_id=job_id).get("runs"))[0]
        assert run["trigger"] == "MODEL"
        assert sdk.jobs.get_run(run["run_id"]).trigger is None
