from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databricks_bridge.delta import names
from databricks_bridge.delta.names import (
    CheckpointPart,
    Checksum,
    ClassicCheckpoint,
    Commit,
    Compacted,
    LastCheckpoint,
    LogFile,
    Staged,
    Unknown,
    V2Checkpoint,
)

V12 = "00000000000000000012"
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
KNOWN: list[tuple[str, LogFile]] = [
    (f"{V12}.json", Commit(12)),
    (f"{V12}.crc", Checksum(12)),
    (f"{V12}.checkpoint.parquet", ClassicCheckpoint(12)),
    (f"{V12}.checkpoint.0000000002.0000000003.parquet", CheckpointPart(12, 2, 3)),
    (f"{V12}.checkpoint.{UUID}.json", V2Checkpoint(12, "json")),
    (f"{V12}.checkpoint.{UUID}.parquet", V2Checkpoint(12, "parquet")),
    ("00000000000000000004.00000000000000000006.compacted.json", Compacted(4, 6)),
    ("_last_checkpoint", LastCheckpoint()),
    (f"_staged_commits/{V12}.{UUID}.json", Staged(12)),
]
UNKNOWN = [
    "",
    "12.json",
    f"0{V12}.json",
    f"{V12}.json.tmp",
    f".{V12}.json.crc",
    f"{V12}.json/x",
    f"{V12}.{UUID}.json",
    f"{V12}.checkpoint.json",
    f"{V12}.checkpoint..parquet",
    "_commits/" + f"{V12}.json",
    f"_staged_commits/{V12}.json",
    "_sidecars/3a0d65cd.parquet",
    "_copy_into_log/0.zip",
    "\u0661" * 20 + ".json",
    f"{V12}.json\n",
]


@pytest.mark.parametrize(("name", "kind"), KNOWN)
def test_a_name_has_one_kind(name: str, kind: LogFile) -> None:
    assert names.parse(name) == kind


@pytest.mark.parametrize("name", UNKNOWN)
def test_any_other_name_is_unknown(name: str) -> None:
    assert names.parse(name) == Unknown(name)


@given(st.integers(min_value=0, max_value=10**20 - 2))
def test_a_version_comes_back_from_its_path(version: int) -> None:
    assert names.parse(names.commit_path(version).removeprefix("_delta_log/")) == Commit(version)
    assert names.parse(names.checksum_path(version).removeprefix("_delta_log/")) == Checksum(version)
    assert names.offset(version) < names.commit_path(version) < names.offset(version + 1)


@given(st.text(max_size=60))
def test_no_name_raises(name: str) -> None:
    assert names.parse(name) is not None
