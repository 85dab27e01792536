"""A checkpoint in a volume, read through the workspace with the operator's own connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from databricks_bridge import CheckpointReached
from databricks_bridge.core.errors import LedgerError, RunFailed
from tests.core.test_checkpoint import offset, offsets
from tests.ledgers.test_checkpoints import lay
from tests.operators.conftest import Bench
from tests.operators.test_postconditions import metadata_id

FOLDER = "/Volumes/main/silver/checkpoints/delays by weather"


def folder_of(bench: Bench) -> Path:
    volume = bench.deployment.layout.volume_path("ops", "/Volumes/main/silver/checkpoints/")
    volume.mkdir(parents=True, exist_ok=True)
    return volume / "delays by weather"


def test_a_checkpoint_in_a_volume_that_reached_to_commits(bench: Bench) -> None:
    lay(folder_of(bench), {batch: offsets(offset(batch + 1, table=metadata_id(bench))) for batch in range(3)}, [0, 1])
    bench.run(bench.operator(postcondition=CheckpointReached(FOLDER, databricks_conn_id="ops")))
    assert bench.watermark() == 0


def test_one_that_did_not_is_a_failed_run(bench: Bench) -> None:
    lay(folder_of(bench), {0: offsets(offset(0, table=metadata_id(bench)))}, [0])
    with pytest.raises(RunFailed, match=f"the checkpoint {FOLDER} has flights at -1, not at 0"):
        bench.run(bench.operator(postcondition=CheckpointReached(FOLDER, databricks_conn_id="ops")))


def test_one_that_is_not_there_commits_nothing(bench: Bench) -> None:
    folder_of(bench)
    with pytest.raises(LedgerError, match=f"cannot read the checkpoint {FOLDER}"):
        bench.run(bench.operator(postcondition=CheckpointReached(FOLDER, databricks_conn_id="ops")))
