"""The parts of `make faults KILL=1` that need no Airflow: which cells there are, and where a consumer stops."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from databricks_bridge.core import acts
from databricks_bridge.core.record import ClaimStatus
from faults.kill import gate
from faults.kill.cells import AROUND, AROUND_STEPS, CELLS, PROCESSES, STEPS, wanted
from tests.core.builders import NOW
from tests.core.driving import claim_of, claimed_record, running_record


def test_every_process_dies_before_every_step() -> None:
    assert len(CELLS) == len(PROCESSES) * len(STEPS) + len(AROUND_STEPS) == len({cell.name for cell in CELLS})
    assert wanted("") == CELLS


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("task:claim", ["task_claim"]),
        ("worker", [f"worker_{step}" for step in STEPS]),
        (":run", [f"{process}_run" for process in PROCESSES]),
        (AROUND, [f"around_{step}" for step in AROUND_STEPS]),
        ("task:run,scheduler:wait", ["task_run", "scheduler_wait"]),
    ],
)
def test_cells_are_picked(only: str, names: list[str]) -> None:
    assert [cell.name for cell in wanted(only)] == names


def test_a_cell_that_is_none_is_refused() -> None:
    with pytest.raises(SystemExit, match="names no cell"):
        wanted("task:nowhere")


def test_each_act_belongs_to_its_step() -> None:
    claimed, running = claimed_record(), running_record()
    committed = replace(running, claim=None).after(NOW, "committed it")
    failed = running_record(ClaimStatus.FAILED)
    steps = {
        "look": acts.Look(None),
        "claim": acts.WriteRecord(claimed),
        "run": acts.StartRun(claim_of(claimed)),
        "noted": acts.WriteRecord(running),
        "wait": acts.AwaitRun(11),
        "prove": acts.Prove(claim_of(running), 11),
        "commit": acts.WriteRecord(committed),
    }
    assert {step: gate.step_before(act) for step, act in steps.items()} == {step: step for step in steps}
    assert {*steps, "end"} == set(STEPS)
    assert [gate.step_before(act) for act in (acts.ReadRecord(), acts.GetRun(1), acts.WriteRecord(failed))] == [
        None
    ] * 3


def test_who_comes_to_the_armed_step_first_stops_there_and_tells_its_ids(tmp_path: Path) -> None:
    (tmp_path / "cell.armed").write_text("run")
    gate.stop("cell", "claim", tmp_path)
    gate.stop("another", "run", tmp_path)
    assert (tmp_path / "cell.armed").exists()
    stopped = threading.Thread(target=gate.stop, args=("cell", "run", tmp_path), daemon=True)
    stopped.start()
    while not (tmp_path / "cell.stopped").exists():
        stopped.join(0.01)
    assert json.loads((tmp_path / "cell.stopped").read_text()) == {"pid": os.getpid(), "parent": os.getppid()}
    assert stopped.is_alive()
    gate.stop("cell", "run", tmp_path)
    (tmp_path / "cell.go").touch()
    stopped.join(10)
    assert not stopped.is_alive()
