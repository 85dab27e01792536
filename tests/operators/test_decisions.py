"""A source that needs a decision: the record says so, so that `status` does, until it is decided (T38)."""

from __future__ import annotations

import shutil

import pytest

from databricks_bridge.core.errors import SourceError
from tests.operators.conftest import TABLE, Bench


def test_a_table_made_anew_is_told_until_it_continues_again(bench: Bench) -> None:
    bench.commit()
    bench.run()
    path = bench.deployment.layout.table_path("ops", TABLE)
    shutil.copytree(path, path.with_name("kept"))
    shutil.rmtree(path)
    bench.commit(7)
    for try_number in (1, 2):
        with pytest.raises(SourceError, match=r"databricks-bridge watermark adopt delays flights earliest"):
            bench.run(try_number=try_number)
    record = bench.record()
    assert "adopt delays flights earliest" in record.problem
    assert sum("waits for a decision" in line.what for line in record.history) == 1
    shutil.rmtree(path)
    shutil.move(path.with_name("kept"), path)
    bench.run(bench.operator(on_nothing_new="succeed"))
    assert bench.record().problem == ""
    assert len(bench.runs()) == 1
