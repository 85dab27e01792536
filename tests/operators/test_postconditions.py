"""The ready-made postconditions, asked where they lie: a success is committed only once they hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge import CheckpointReached, ControlTableReached
from databricks_bridge.core.errors import LedgerError, NotFound, RunFailed
from databricks_bridge.core.parameters import of_run
from databricks_bridge.core.record import ClaimStatus
from databricks_bridge.delta import counting
from databricks_bridge.workspace import statements
from tests.core.driving import claim_of
from tests.core.test_checkpoint import offset, offsets
from tests.ledgers.test_checkpoints import lay
from tests.operators.conftest import Bench


def metadata_id(bench: Bench) -> str:
    from deltalake import DeltaTable

    from tests.operators.conftest import TABLE

    return str(DeltaTable(str(bench.deployment.layout.table_path("ops", TABLE))).metadata().id)


def write(bench: Bench, folder: Path, next_version: int, table: str | None = None) -> CheckpointReached:
    line = offset(next_version, table=table or metadata_id(bench))
    return CheckpointReached(lay(folder, {0: offsets(line)}, [0]))


def test_a_checkpoint_that_reached_to_commits(bench: Bench, tmp_path: Path) -> None:
    condition = write(bench, tmp_path / "checkpoint", 1)
    bench.run(bench.operator(postcondition=condition))
    assert bench.watermark() == 0


def test_a_checkpoint_that_did_not_is_a_failed_run_and_the_next_try_starts_another(
    bench: Bench, tmp_path: Path
) -> None:
    condition = write(bench, tmp_path / "checkpoint", 0)
    with pytest.raises(
        RunFailed, match=r"its postcondition does not hold: the checkpoint file:.* has flights at -1, not at 0"
    ):
        bench.run(bench.operator(postcondition=condition))
    assert claim_of(bench.record()).status is ClaimStatus.FAILED
    (tmp_path / "checkpoint" / "offsets" / "0").write_text(offsets(offset(1, table=metadata_id(bench))))
    bench.run(bench.operator(postcondition=condition), try_number=2)
    assert bench.watermark() == 0


@pytest.mark.parametrize("why", ["not there", "another table", "half written"])
def test_a_checkpoint_that_cannot_tell_commits_nothing_and_is_asked_again(
    bench: Bench, tmp_path: Path, why: str
) -> None:
    folder = tmp_path / "checkpoint"
    condition = CheckpointReached(folder.as_uri())
    if why == "another table":
        condition = write(bench, folder, 1, "11111111-8736-4028-9132-3b37a792dbde")
    if why == "half written":
        lay(folder, {0: offsets('{"reservoirId"')}, [0])
    with pytest.raises(LedgerError, match="checkpoint"):
        bench.run(bench.operator(postcondition=condition))
    claim = claim_of(bench.record())
    assert (claim.status, claim.failures, claim.run_id) == (ClaimStatus.OPEN, 0, bench.runs()[0]["run_id"])
    bench.run(bench.operator(), try_number=2)
    assert (bench.watermark(), len(bench.runs())) == (0, 1)


def test_every_condition_has_to_hold(bench: Bench, tmp_path: Path) -> None:
    condition = write(bench, tmp_path / "checkpoint", 1)
    with pytest.raises(RunFailed, match="no rows"):
        bench.run(bench.operator(postcondition=[condition, lambda ranges, run_id: "no rows"]))


@pytest.fixture
def table(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rows of the control table; no SQL warehouse runs here. The statements that were asked come after them."""
    rows: list[Any] = []

    async def execute(self: Any, statement: str, **parameters: Any) -> list[Any]:
        if rows and isinstance(rows[0], Exception):
            raise rows[0]
        assert statement == "SELECT source, last_version FROM `main`.`ops`.`job_watermarks` WHERE job = :job"
        assert parameters == {"job": "delays"}
        return rows

    monkeypatch.setattr(statements.Warehouse, "execute", execute)
    return rows


CONTROL = ControlTableReached("main.ops.job_watermarks", "small")


def test_a_control_table_that_reached_to_commits(bench: Bench, table: list[Any]) -> None:
    table.append({"source": "flights", "last_version": "0"})
    bench.run(bench.operator(postcondition=CONTROL))
    assert bench.watermark() == 0


def test_a_control_table_without_our_row_is_a_failed_run(bench: Bench, table: list[Any]) -> None:
    table.append({"source": "flights", "last_version": None})
    with pytest.raises(RunFailed, match=r"the control table main\.ops\.job_watermarks has nothing of flights"):
        bench.run(bench.operator(postcondition=CONTROL))


@pytest.mark.parametrize("why", ["two rows", "no table"])
def test_a_control_table_that_cannot_tell_commits_nothing(bench: Bench, table: list[Any], why: str) -> None:
    row = {"source": "flights", "last_version": "0"}
    table.extend([row, row] if why == "two rows" else [NotFound("no such table")])
    with pytest.raises((LedgerError, NotFound), match=r"more than one row|no such table"):
        bench.run(bench.operator(postcondition=CONTROL))
    assert claim_of(bench.record()).status is ClaimStatus.OPEN


def test_what_was_looked_for_in_the_control_table_is_told(bench: Bench, table: list[Any]) -> None:
    table.append({"source": "main.silver.flights", "last_version": "0"})
    with pytest.raises(
        RunFailed,
        match=r"looked for rows with job = 'delays' and source = 'flights', that job has the sources: 'main.silver",
    ):
        bench.run(bench.operator(postcondition=CONTROL))


def test_nothing_new_asks_nothing(bench: Bench, table: list[Any]) -> None:
    table.append({"source": "flights", "last_version": "0"})
    bench.run(bench.operator(postcondition=CONTROL))
    table[:] = [LedgerError("asked")]
    task = bench.operator(postcondition=CONTROL, on_nothing_new="succeed")
    assert bench.run(task)["run_id"] is None
    assert [of_run(run)["bridge_generation"] for run in bench.runs()] == ["0"]


def in_the_feed(bench: Bench, folder: Path, index: int) -> CheckpointReached:
    """A stream that stopped inside version 1, whose UPDATE wrote two files and one change file."""
    line = offset(1, index, table=metadata_id(bench))
    log = bench.deployment.layout.table_path("ops", "main.silver.flights") / "_delta_log"
    files = [{"add": {"path": name, "dataChange": True}} for name in ("a", "b")]
    actions = [{"commitInfo": {"operation": "UPDATE"}}, *files, {"cdc": {"path": "c", "dataChange": False}}]
    (log / f"{1:020d}.json").write_text("".join(json.dumps(one) + "\n" for one in actions))
    return CheckpointReached(lay(folder, {0: offsets(line)}, [0]))


def test_T02_a_feed_that_stopped_at_the_last_change_file_has_processed_the_version(
    bench: Bench, tmp_path: Path
) -> None:
    condition = in_the_feed(bench, tmp_path / "checkpoint", 0)
    bench.run(bench.operator(postcondition=condition))
    assert (bench.watermark(), len(bench.runs())) == (1, 1)


def test_a_stream_of_the_table_s_own_files_is_said_to_be_one(bench: Bench, tmp_path: Path) -> None:
    condition = replace(in_the_feed(bench, tmp_path / "checkpoint", 0), change_feed=False)
    with pytest.raises(RunFailed, match="has flights at 0, not at 1"):
        bench.run(bench.operator(postcondition=condition))


def test_a_version_whose_files_nobody_can_count_commits_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object) -> None:
        return None

    condition = in_the_feed(bench, tmp_path / "checkpoint", 0)
    monkeypatch.setattr(counting, "commit_files", gone)
    with pytest.raises(LedgerError, match=r"stands inside version 1 of flights, .* is not known; nothing is committed"):
        bench.run(bench.operator(postcondition=condition))
    assert claim_of(bench.record()).status is ClaimStatus.OPEN


def test_commits_without_data_after_the_last_processed_version_need_no_reading(bench: Bench, tmp_path: Path) -> None:
    condition = write(bench, tmp_path / "checkpoint", 1)
    log = bench.deployment.layout.table_path("ops", "main.silver.flights") / "_delta_log"
    (log / f"{1:020d}.json").write_text(json.dumps({"commitInfo": {"operation": "OPTIMIZE"}}) + "\n")
    bench.run(bench.operator(postcondition=condition))
    assert bench.watermark() == 1
