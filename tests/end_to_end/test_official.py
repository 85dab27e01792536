"""Tasks of the official provider upstream of ours, and between `claim()` and `commit()`, on real Airflow."""

from __future__ import annotations

import pytest

from tests.end_to_end.conftest import Bridge, given

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]


def bounds(bridge: Bridge, job: str) -> list[tuple[str, str]]:
    """Start and end, both inclusive, that each run was given."""
    return [(given(run)["flights_start"], given(run)["flights_end"]) for run in bridge.runs("gold", job)]


def test_what_their_task_wrote_is_our_range_and_their_success_moves_our_watermark(bridge: Bridge) -> None:
    bridge.commit(1, "main.between.flights")
    started = [(dag_id, bridge.start(dag_id)) for dag_id in ("official_upstream", "official_between")]
    assert [bridge.wait(*one) for one in started] == ["success", "success"]
    assert len(bridge.runs("ops", "append-official")) == 1
    assert bounds(bridge, "consume-official") == [("0", "0")]
    assert bounds(bridge, "export-official") == [("0", "0")]
    committed = bridge.airflow.xcoms("official_between", started[1][1], "commit_between")["return_value"]
    assert [(one["from"]["version"], one["to"]["version"]) for one in committed["ranges"]] == [(-1, 0)]
