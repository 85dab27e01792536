"""Every interleaving around external work; and the proof that this exploration can fail."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.core import acts, claims, protocol
from databricks_bridge.core.record import claim_id_of
from databricks_bridge.core.steps import Memory, State
from tests.core.exploring_around import explore_around


@pytest.mark.parametrize(
    "faults",
    [
        {"dag_runs": 2, "last": 1, "crashes": 2, "losses": 1},
        {"dag_runs": 3, "last": 1, "crashes": 1, "losses": 1, "restarts": 1},
        {"dag_runs": 2, "last": 0, "at_once": 2, "crashes": 1},
        {"dag_runs": 2, "last": 0, "at_once": 2, "given_up": 1},
    ],
)
def test_external_work_and_a_record_that_is_lost(faults: dict[str, int]) -> None:
    """Not both at once: who has just seen no copy would not see the loss of a record that another wrote meanwhile."""
    found = explore_around(**faults)
    assert found.violation == "", "\n".join(found.path)
    assert found.stuck == (), "\n".join(found.stuck)


def test_it_fails_when_the_copy_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    first_start: Any = lambda *_: (Memory(State.LOOKED), acts.Look(None))  # noqa: E731
    monkeypatch.setitem(protocol._STATES, State.SURVEYED, first_start)  # type: ignore[arg-type]
    found = explore_around(dag_runs=2, last=1, losses=1)
    assert found.violation == "a lost record was a first start"


def test_it_fails_when_an_id_does_not_hold_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_to(name: str, target: Any, epoch: str, ranges: Any, generation: int, nonce: str) -> str:
        return claim_id_of(name, target, epoch, (), generation, nonce)

    monkeypatch.setattr(claims, "claim_id_of", without_to)
    found = explore_around(dag_runs=2, last=1, losses=1, restarts=1)
    assert "one id was handed out with two ranges" in found.violation


def test_it_fails_when_a_commit_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databricks_bridge.core.around.committed_as", lambda record, token: None)
    found = explore_around(dag_runs=1, last=0, crashes=1)
    assert found.stuck


def test_it_fails_when_anybody_gets_an_open_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "databricks_bridge.core.around.resume",
        lambda plan, record, claim: (Memory(State.OPENED, record), acts.Finish((), None, "", claim)),
    )
    found = explore_around(dag_runs=2, last=0, at_once=2)
    assert found.violation == "two DAG runs have one claim"
