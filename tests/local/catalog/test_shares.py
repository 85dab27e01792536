"""Shares between metastores: what a reader can read at each step, asked of the published tables themselves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.shares import Share, Shares
from databricks_bridge.local.triggers.commits import table_id
from tests.local.local_kit import client, eventually

CDF = {"delta.enableChangeDataFeed": "true"}


class Lab:
    """Provider ops, reader analytics, one share of ops.main.silver."""

    def __init__(self, home: Path, lag: str = "held") -> None:
        self.layout = Layout(home)
        for metastore in ("ops", "analytics"):
            self.layout.metastore_root(metastore).mkdir(parents=True)
        self.shares = Shares(self.layout)
        self.share = Share("analytics", "ops_share", "ops", "main", ("silver",), lag)
        self.shares.put(self.share)
        self.source = self.layout.table_path("ops", "main.silver.flights")
        self.target = self.layout.table_path("analytics", "ops_share.silver.flights")

    def write(self, *values: int, mode: str = "append") -> None:
        from deltalake import write_deltalake

        self.source.mkdir(parents=True, exist_ok=True)
        rows = pa.table({"n": pa.array(values, pa.int64())})
        write_deltalake(str(self.source), rows, mode=mode, configuration=CDF)

    def publish(self, max_commits: int | None = None) -> dict[str, int]:
        return self.shares.publish(self.share, max_commits)

    def provider(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(str(self.source))

    def reader(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(str(self.target))

    def rows(self) -> list[int]:
        return sorted(pa.table(self.reader().to_pyarrow_table()).column("n").to_pylist())

    def changes(self, start: int, end: int) -> list[tuple[int, str, int]]:
        table = pa.table(self.reader().load_cdf(starting_version=start, ending_version=end).read_all())
        return sorted((row["_commit_version"], row["_change_type"], row["n"]) for row in table.to_pylist())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_commits_are_published_in_order_with_their_times_and_changes(lab: Lab) -> None:
    lab.write(1, 2)
    lab.write(3)
    lab.provider().update(predicate="n = 3", updates={"n": "30"})
    lab.provider().delete("n = 1")
    assert lab.publish(max_commits=1) == {"silver.flights": 0}
    assert (lab.reader().version(), lab.rows()) == (0, [1, 2])
    assert lab.publish(max_commits=2) == {"silver.flights": 2}
    assert (lab.reader().version(), lab.rows()) == (2, [1, 2, 30])
    assert lab.changes(1, 2) == [(1, "insert", 3), (2, "update_postimage", 30), (2, "update_preimage", 3)]
    assert lab.publish() == {"silver.flights": 3}
    assert lab.rows() == [2, 30]
    assert lab.changes(3, 3) == [(3, "delete", 1)]
    for version in range(4):
        name = f"_delta_log/{version:020d}.json"
        assert (lab.target / name).stat().st_mtime_ns == (lab.source / name).stat().st_mtime_ns
    assert lab.reader().metadata().id == lab.provider().metadata().id
    assert table_id(lab.target) != table_id(lab.source)


def test_publishing_twice_changes_nothing(lab: Lab) -> None:
    lab.write(1)
    lab.publish()
    before = {path: path.stat().st_mtime_ns for path in lab.target.rglob("*")}
    assert lab.publish() == {"silver.flights": 0}
    assert {path: path.stat().st_mtime_ns for path in lab.target.rglob("*")} == before


def test_a_held_share_waits_and_the_other_does_not(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write(1)
    asyncio.run(lab.shares.publish_for("analytics"))
    assert not lab.target.exists()
    at_once = Share("analytics", "ops_share", "ops", "main", ("silver",), "none")
    lab.shares.put(at_once)
    assert lab.rows() == [1]
    lab.write(2)
    asyncio.run(lab.shares.publish_for("ops"))
    assert lab.rows() == [1]
    asyncio.run(lab.shares.publish_for("analytics"))
    assert lab.rows() == [1, 2]


def test_definitions_outlive_the_process(lab: Lab) -> None:
    assert Shares(lab.layout).find("analytics", "ops_share") == lab.share
    assert Shares(lab.layout).of("ops") == []


@pytest.mark.parametrize("stop_after", range(1, 14))
def test_cut_off_anywhere_it_can_be_read_and_continues(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    """The process ends before its k-th change of a directory; what is there then is a version, and the next try ends."""
    lab.write(1)
    lab.publish()
    lab.write(2)
    lab.provider().create_checkpoint()
    lab.write(3)
    cut_off_after(monkeypatch, stop_after)
    ended = False
    try:
        lab.publish()
        ended = True
    except Cut:
        pass
    monkeypatch.undo()
    version = lab.reader().version()
    assert lab.rows() == list(range(1, version + 2))
    assert version == 2 or not ended
    assert lab.publish() == {"silver.flights": 2}
    assert lab.rows() == [1, 2, 3]
    assert lab.changes(0, 2) == [(0, "insert", 1), (1, "insert", 2), (2, "insert", 3)]


@pytest.mark.parametrize("stop_after", range(1, 12))
def test_cut_off_during_the_first_publication_or_the_next_table(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    lab.write(1)
    lab.publish()
    shutil.rmtree(lab.source)
    lab.write(7)
    lab.write(8)
    cut_off_after(monkeypatch, stop_after)
    with contextlib.suppress(Cut):
        lab.publish()
    monkeypatch.undo()
    if lab.target.exists():
        assert lab.rows() in ([1], [7, 8])
    assert lab.publish() == {"silver.flights": 1}
    assert lab.rows() == [7, 8]
    assert sorted(path.name for path in lab.target.parent.iterdir()) == ["flights"]


class Cut(BaseException):
    """The process ends here."""


def cut_off_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Let `calls` links, replacements, renames and removals happen, and no more."""
    left = [calls]

    def counted(function: Any) -> Any:
        def wrapper(*given: Any, **more: Any) -> Any:
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            return function(*given, **more)

        return wrapper

    for owner, name in ((os, "link"), (os, "replace"), (os, "unlink"), (Path, "rename"), (shutil, "rmtree")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))


def test_a_table_dropped_and_made_again_begins_anew(lab: Lab) -> None:
    for n in range(3):
        lab.write(n)
    lab.publish()
    first = table_id(lab.target)
    shutil.rmtree(lab.source)
    lab.write(9)
    assert lab.publish() == {"silver.flights": 0}
    assert lab.rows() == [9]
    assert table_id(lab.target) != first
    shutil.rmtree(lab.source)
    assert lab.publish() == {}
    assert not lab.target.exists()


def test_checkpoints_come_along_and_a_cleaned_log_begins_at_one(lab: Lab) -> None:
    for n in range(4):
        lab.write(n)
    lab.provider().create_checkpoint()
    lab.write(4)
    log = lab.source / "_delta_log"
    for version in range(3):
        (log / f"{version:020d}.json").unlink()
    assert lab.publish() == {"silver.flights": 4}
    assert lab.rows() == [0, 1, 2, 3, 4]
    names = sorted(path.name for path in (lab.target / "_delta_log").iterdir() if not path.name.startswith("."))
    assert names == sorted(path.name for path in log.iterdir() if not path.name.startswith("."))


def test_a_reader_that_was_held_past_log_cleanup_begins_anew(lab: Lab) -> None:
    lab.write(0)
    lab.publish()
    for n in range(1, 4):
        lab.write(n)
    lab.provider().create_checkpoint()
    lab.write(4)
    for version in range(3):
        (lab.source / "_delta_log" / f"{version:020d}.json").unlink()
    assert lab.publish() == {"silver.flights": 4}
    assert lab.rows() == [0, 1, 2, 3, 4]


def test_what_the_provider_has_cleaned_the_reader_loses_too(lab: Lab) -> None:
    lab.write(1)
    lab.write(2, mode="overwrite")
    lab.publish()
    data = [path for path in lab.target.iterdir() if path.suffix == ".parquet"]
    lab.provider().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    lab.write(3)
    lab.provider().create_checkpoint()
    (lab.source / "_delta_log" / f"{0:020d}.json").unlink()
    lab.publish()
    assert lab.rows() == [2, 3]
    assert sum(path.exists() for path in data) == 1
    assert not (lab.target / "_delta_log" / f"{0:020d}.json").exists()


def test_what_cannot_be_shared_is_refused(lab: Lab) -> None:
    (lab.layout.metastore_root("analytics") / "main").mkdir()
    with pytest.raises(InvalidArgument, match="is not a share"):
        lab.shares.put(Share("analytics", "main", "ops", "main", ("silver",)))
    with pytest.raises(InvalidArgument, match="no metastore met"):
        lab.shares.put(Share("analytics", "met_share", "met", "main", ("silver",)))
    with pytest.raises(InvalidArgument, match="lag"):
        Share("analytics", "ops_share", "ops", "main", ("silver",), lag="some")


def test_over_http_the_shared_catalog_is_read_only(deployment: Deployment) -> None:
    from databricks.sdk.errors import BadRequest, NotFound, PermissionDenied
    from databricks.sdk.service.catalog import TableOperation
    from deltalake import DeltaTable, write_deltalake

    met = client(deployment, "met")
    do = met.api_client.do
    made = do("POST", "/local/shares", body={
        "catalog": "ops_share", "source_metastore": "ops", "source_catalog": "main", "schemas": ["silver"]})  # fmt: skip
    assert (made["lag"], made["history"], made["metastore"]) == ("none", True, "met")
    source = deployment.layout.table_path("ops", "main.silver.flights")
    source.mkdir(parents=True)
    for n in range(2):
        write_deltalake(str(source), pa.table({"n": pa.array([n], pa.int64())}), mode="append")
    target = deployment.layout.table_path("met", "ops_share.silver.flights")
    eventually(lambda: target.exists() and DeltaTable(str(target)).version() == 1)
    catalog = met.catalogs.get("ops_share")
    assert (catalog.catalog_type.value, catalog.provider_name) == ("DELTASHARING_CATALOG", "ops")
    table = met.tables.get("ops_share.silver.flights")
    assert (table.data_source_format.value, table.storage_location) == ("DELTASHARING", None)
    refused: tuple[Callable[[], Any], ...] = (
        lambda: met.tables.delete("ops_share.silver.flights"),
        lambda: met.schemas.create("gold", "ops_share"),
        lambda: met.schemas.delete("ops_share.silver", force=True),
        lambda: met.catalogs.delete("ops_share", force=True),
        lambda: met.temporary_table_credentials.generate_temporary_table_credentials(
            table_id=table.table_id, operation=TableOperation.READ
        ),
    )
    for write in refused:
        with pytest.raises(PermissionDenied):
            write()
    do("POST", "/local/shares", body={
        "catalog": "ops_share", "source_metastore": "ops", "source_catalog": "main", "schemas": ["silver"],
        "lag": "held"})  # fmt: skip
    write_deltalake(str(source), pa.table({"n": pa.array([5], pa.int64())}), mode="append")
    assert DeltaTable(str(target)).version() == 1
    answer = do("POST", "/local/shares/ops_share/publish", body={"max_commits": 1})
    assert answer == {"published": {"silver.flights": 2}}
    assert [share["lag"] for share in do("GET", "/local/shares")["shares"]] == ["held"]
    with pytest.raises(NotFound):
        do("POST", "/local/shares/none/publish")
    with pytest.raises(BadRequest, match="source_catalog"):
        do("POST", "/local/shares", body={"catalog": "x", "source_metastore": "ops"})
