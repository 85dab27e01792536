from __future__ import annotations

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.delta.commits import carries_data, read_head

from .conftest import OPTIMIZED, append, commit, metadata


def info(operation: str) -> dict[str, dict[str, str]]:
    return {"commitInfo": {"operation": operation}}


ADD_OLD = {"add": {"path": "a", "dataChange": False}}
REMOVE = {"remove": {"path": "a", "dataChange": True}}

CASES = {
    "append": ([info("WRITE"), append(1)], True),
    "append, commitInfo last": ([append(1), info("WRITE")], True),
    "append without commitInfo": ([append(1)], True),
    "delete of whole files": ([info("DELETE"), REMOVE], True),
    "delete that matched nothing": ([info("DELETE")], False),
    "merge that matched nothing": ([info("MERGE")], False),
    "change data beside its files": ([{"cdc": {"path": "c", "dataChange": False}}, REMOVE, append(1)], True),
    "optimize": (OPTIMIZED, False),
    "maintenance by a writer without commitInfo": (OPTIMIZED[1:], False),
    "an operation of a newer writer, by its actions": ([info("FROBNICATE"), ADD_OLD], False),
    "vacuum": ([info("VACUUM END")], False),
    "statistics": ([info("COMPUTE STATS"), ADD_OLD], False),
    "properties": ([info("SET TBLPROPERTIES"), metadata()], False),
    "create": ([info("CREATE TABLE"), metadata()], False),
    "restore": ([info("RESTORE"), append(1), REMOVE, metadata()], True),
    "one data file among maintenance": ([*OPTIMIZED, append(1)], True),
    "an add without dataChange": ([{"add": {"path": "a"}}], True),
    "an unknown action": ([info("WRITE"), {"frob": {}}], True),
    "an unknown action in maintenance": ([info("OPTIMIZE"), {"frob": {}}, ADD_OLD], False),
    "a streaming batch without rows": ([info("STREAMING UPDATE"), {"txn": {"appId": "a", "version": 3}}], False),
}


@pytest.mark.parametrize("name", CASES)
def test_whether_a_commit_carries_data(name: str) -> None:
    actions, expected = CASES[name]
    assert carries_data(commit(*actions).encode()) is expected


@pytest.mark.parametrize("broken", [b"", b"\n", b"not json\n", b"[1]\n", b'{"add": 1}\n', b"\xff\xfe\n"])
def test_what_cannot_be_read_counts_as_data(broken: bytes) -> None:
    assert carries_data(broken) is True


def test_of_a_beginning_the_operation_decides() -> None:
    old = commit(*[ADD_OLD] * 3)[:-9].encode()
    assert carries_data(commit(info("OPTIMIZE")).encode() + old, whole=False) is False
    assert carries_data(commit(info("WRITE")).encode() + old, whole=False) is True
    assert carries_data(old, whole=False) is True
    assert carries_data(commit(info("OPTIMIZE"), append(1)).encode() + old, whole=False) is True


def test_the_head_says_operation_and_metadata() -> None:
    head = read_head(commit(info("WRITE"), metadata("abc")).encode(), whole=True)
    assert (head.operation, head.metadata_id) == ("WRITE", "abc")


def test_a_catalog_managed_table_is_refused() -> None:
    protocol = {"protocol": {"minReaderVersion": 3, "readerFeatures": ["catalogManaged"]}}
    with pytest.raises(InvalidArgument, match="catalog-managed"):
        read_head(commit(protocol).encode(), whole=True)
