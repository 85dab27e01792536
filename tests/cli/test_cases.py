"""Faults that users of neighbouring projects reported, held against the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.core.acts import Finish, RunFound, RunGone
from databricks_bridge.core.errors import ClaimUndecided, HistoryGap
from databricks_bridge.core.pending import TableFinding
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.record import ClaimStatus
from tests.cli.conftest import CLAIM, FIRST, Answer, Folder
from tests.core.builders import NOW, TARGET, at
from tests.core.driving import Script

from .test_workspace_commands import Job, flights, job, workspace  # noqa: F401  (fixtures)

Bridge = Callable[..., Answer]
WHY = ("--why", "looked at the target", "--by", "ada", "--yes")
OURS = replace(FIRST, consumer=TARGET.consumer)


def test_A02_a_run_that_is_gone_is_settled_by_a_person_and_never_by_a_blind_new_run(
    ledger: Folder, bridge: Bridge
) -> None:
    ledger.write(OURS)
    claim = replace(CLAIM, status=ClaimStatus.OPEN, target=TARGET)
    ledger.write(OURS.after(NOW, "claimed", claim=claim))
    script = Script().read(ledger.read())
    script.answer(RunGone(11)).answer(RunFound(None))
    ledger.write(script.written())
    missing = ledger.read()
    assert missing is not None
    script.later(missing).answer(RunGone(11)).answer(RunFound(None))
    ledger.write(script.written())
    script.fails(ClaimUndecided)
    assert bridge("status").code == 3, "it is shown until somebody looks"
    assert bridge("claim", "resolve", "delays", "--as", "succeeded", "--without-looking", *WHY).code == 0
    record = ledger.read()
    assert record is not None
    assert (record.claim, record.watermarks["flights"]) == (None, at(8))


def test_A14_two_jobs_of_one_name_are_an_error_that_names_both(job: Job, ledger: Folder, bridge: Bridge) -> None:  # noqa: F811
    settings: dict[str, Any] = job.call("GET", "/api/2.2/jobs/get", job_id=job.job_id)["settings"]
    job.ended(flights(-1, 2))
    twin = job.call("POST", "/api/2.2/jobs/create", **settings)["job_id"]
    said = bridge("watermark", "rebuild", "delays", "--job-name", settings["name"], *WHY)
    assert said.code in (1, 2)
    assert str(twin) in said.err
    assert str(job.job_id) in said.err
    assert ledger.read() is None
    count = len(job.call("GET", "/api/2.2/jobs/list", name=settings["name"])["jobs"])
    assert count == 2, "none was made"


def test_D01_what_is_passed_over_after_the_log_was_cut_stands_in_the_history(ledger: Folder, bridge: Bridge) -> None:
    """Watermark 5; the log now begins at 40 and ends at 90."""
    ledger.write(OURS)
    gap = "commit 6 is not there, the log begins at 40"
    script = Script().read(ledger.read()).look({"flights": TableFinding(at(90), 90, NOW, gap=gap)})
    assert f"after version 5 cannot be read: {gap}" in str(script.fails(HistoryGap))
    assert ledger.read() == OURS, "nothing was started, nothing was written"
    assert bridge("watermark", "adopt", "delays", "flights", "39", "--table-id", "t1", *WHY).code == 0
    record = ledger.read()
    assert record is not None
    assert record.history[-1].what == ("adopted flights at version 39, was version 5 by ada: looked at the target")
    again = Script().read(record).look({"flights": TableFinding(at(90), 90, NOW)}).written()
    assert again.claim is not None
    (one,) = again.claim.ranges
    assert str(one) == "ops_share.silver.flights (39, 90]"


def test_D06_after_a_declared_reset_the_new_table_is_read_whole_exactly_once(ledger: Folder, bridge: Bridge) -> None:
    ledger.write(OURS)
    made_again = {"flights": TableFinding(at(4, "t2", "m2"), 4, NOW)}
    failed = Script().read(ledger.read()).look(dict(made_again))
    message = str(failed.fails(Exception))
    assert "t2" in message
    assert "t1" in message
    assert ledger.read() == OURS
    reset = ("watermark", "adopt", "delays", "flights", "earliest", "--table-id", "t2", "--metadata-id", "m2")
    assert bridge(*reset, *WHY).code == 0
    record = ledger.read()
    assert record is not None
    claimed = Script().read(record).look(dict(made_again)).written()
    assert claimed.claim is not None
    (one,) = claimed.claim.ranges
    assert (one.from_, one.to) == (TablePosition(-1, "t2", "m2"), at(4, "t2", "m2"))
    done = claimed.after(NOW, "committed", claim=None, watermarks={**claimed.watermarks, "flights": one.to})
    script = Script().read(done).look({"flights": TableFinding(at(4, "t2", "m2"), None, NOW)})
    assert script.asks(Finish).ranges == (), "nothing is claimed a second time"


@pytest.mark.parametrize("heavy", ["deltalake", "pyarrow", "pandas", "databricks.sdk", "aiohttp", "obstore", "airflow"])
def test_E15_the_commands_that_only_parse_import_nothing_heavy(heavy: str) -> None:
    code = (
        "import sys; from databricks_bridge.cli import main\n"
        f"main(['--help']); main(['status', '--ledger', 'nonsense']); sys.exit(7 * ({heavy!r} in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_E15_a_missing_extra_is_told_when_it_is_needed_and_not_before(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from databricks_bridge.cli import main\n"
        f"code = main(['status', '--ledger', {tmp_path.as_uri()!r}])\n"
        "sys.exit(10 * code + main(['local', 'up', '--home', '/nonexistent', '--workspace', 'ops']))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "install airflow-provider-databricks-bridge[local]" in done.stderr
