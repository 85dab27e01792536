"""A run that is gone, with the ready-made postconditions to ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from databricks_bridge import CheckpointReached
from databricks_bridge.core.errors import ClaimUndecided, LedgerError, RunFailed
from databricks_bridge.core.record import ClaimStatus
from tests.core.driving import claim_of
from tests.core.test_checkpoint import offset, offsets
from tests.ledgers.test_checkpoints import lay
from tests.operators.conftest import Bench
from tests.operators.test_postconditions import metadata_id

pytestmark = pytest.mark.usefixtures("gone_at_once")


def forget_its_run(bench: Bench, condition: CheckpointReached) -> None:
    """A success that could not be proved at first, and whose run is then deleted."""
    with pytest.raises(LedgerError):
        bench.run(bench.operator(postcondition=condition))
    bench.api.post("runs/delete", run_id=bench.runs()[0]["run_id"])


def test_A02_a_checkpoint_that_reached_to_commits(bench: Bench, tmp_path: Path) -> None:
    condition = CheckpointReached((tmp_path / "checkpoint").as_uri())
    forget_its_run(bench, condition)
    lay(tmp_path / "checkpoint", {0: offsets(offset(1, table=metadata_id(bench)))}, [0])
    bench.run(bench.operator(postcondition=condition), try_number=2)
    assert (bench.watermark(), bench.runs()) == (0, [])


def test_A02_a_checkpoint_that_is_behind_starts_another_run(bench: Bench, tmp_path: Path) -> None:
    condition = CheckpointReached((tmp_path / "checkpoint").as_uri())
    forget_its_run(bench, condition)
    lay(tmp_path / "checkpoint", {0: offsets(offset(0, table=metadata_id(bench)))}, [0])
    with pytest.raises(RunFailed, match="flights at -1, not at 0"):
        bench.run(bench.operator(postcondition=condition), try_number=2)
    with pytest.raises(RunFailed):
        bench.run(bench.operator(postcondition=condition), try_number=3)
    assert len(bench.runs()) == 1


def test_A02_a_checkpoint_that_cannot_be_read_is_undecided_and_starts_nothing(bench: Bench, tmp_path: Path) -> None:
    condition = CheckpointReached((tmp_path / "checkpoint").as_uri())
    forget_its_run(bench, condition)
    with pytest.raises(ClaimUndecided, match="claim resolve"):
        bench.run(bench.operator(postcondition=condition), try_number=2)
    assert claim_of(bench.record()).status is ClaimStatus.UNDECIDED
    assert bench.runs() == []
