"""Values of a form as a table's types take them, and what the log says of its versions."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.pages.delta_history import history, newest_version
from databricks_bridge.local.pages.row import RowRefused, append, row_of_fields, row_of_json
from tests.local.pages.pages_kit import rows_of

STRUCT = {
    "type": "struct",
    "fields": [
        {"name": "lat", "type": "double", "nullable": True, "metadata": {}},
        {"name": "code", "type": "string", "nullable": False, "metadata": {}},
    ],
}
ARRAY = {"type": "array", "elementType": "integer", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}


def column(kind: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": "c", "type": kind, "nullable": nullable, "metadata": {}}


@pytest.mark.parametrize(
    ("kind", "typed", "value"),
    [
        ("string", "007", "007"),
        ("long", " -9223372036854775808 ", -(2**63)),
        ("byte", "127", 127),
        ("double", "1e3", 1000.0),
        ("decimal(10,2)", "12.50", Decimal("12.50")),
        ("boolean", "TRUE", True),
        ("boolean", "false", False),
        ("date", "2013-01-31", date(2013, 1, 31)),
        ("timestamp", "2013-01-31T10:00:00+01:00", datetime.fromisoformat("2013-01-31T10:00:00+01:00")),
        ("timestamp", "2013-01-31 10:00", datetime(2013, 1, 31, 10, tzinfo=UTC)),
        ("timestamp_ntz", "2013-01-31T10:00:00", datetime(2013, 1, 31, 10)),
        ("binary", "AP8=", b"\x00\xff"),
        (ARRAY, "[1, null, 3]", [1, None, 3]),
        (MAP, '{"EWR": 3}', [("EWR", 3)]),
        (STRUCT, '{"code": "EWR"}', {"lat": None, "code": "EWR"}),
        ("long", "", None),
        (STRUCT, "", None),
    ],
)
def test_a_typed_value_is_taken_by_its_column(kind: Any, typed: str, value: Any) -> None:
    assert row_of_fields([column(kind)], {"0": typed}) == {"c": value}


@pytest.mark.parametrize(
    ("kind", "typed", "says"),
    [
        ("long", "9223372036854775808", "c: '9223372036854775808' is no bigint."),
        ("byte", "128", "is no tinyint"),
        ("integer", "1.5", "is no int"),
        ("double", "much", "is no double"),
        ("decimal(10,2)", "x", "is no decimal(10,2)"),
        ("boolean", "yes", "write true or false"),
        ("date", "31.01.2013", "write 2024-05-01"),
        ("timestamp", "now", "write 2024-05-01T12:00:00Z"),
        ("binary", "é", "write it in base64"),
        ("variant", "1", "values of the type variant cannot be committed here"),
        (ARRAY, "{}", "write a JSON list"),
        (ARRAY, '["a"]', "c[0]: 'a' is no int"),
        (MAP, "[", "c is not JSON"),
        (STRUCT, '{"lat": 1}', "c.code is needed: the column is not nullable."),
        (STRUCT, '{"code": "a", "long": 1}', "c has no field long; it has lat, code."),
    ],
)
def test_a_value_that_does_not_fit_is_named(kind: Any, typed: str, says: str) -> None:
    with pytest.raises(RowRefused) as refused:
        row_of_fields([column(kind)], {"0": typed})
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "source", "says"),
    [
        ("long", '{"c": true}', "is no bigint"),
        ("long", '{"c": 1.0}', "is no bigint"),
        ("double", '{"c": [1]}', "is no double"),
        ("long", "[]", "has to be a JSON object"),
        ("long", "{}", "c is needed"),
        ("long", "[" * 100_000, "is not JSON"),
    ],
)
def test_a_json_row_is_held_to_the_types_too(kind: str, source: str, says: str) -> None:
    with pytest.raises(RowRefused, match=says):
        row_of_json([column(kind, nullable=False)], source)


def test_every_type_comes_back_as_it_was_given(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    kinds = ["string", "long", "double", "decimal(10,2)", "boolean", "date", "timestamp", "binary", ARRAY, MAP, STRUCT]
    fields = [{**column(kind), "name": f"c{number}"} for number, kind in enumerate(kinds)]
    DeltaTable.create(str(tmp_path), _schema(fields))
    typed = [
        "é",
        "7",
        "0.5",
        "1.25",
        "true",
        "2013-01-31",
        "2013-01-31T10:00:00Z",
        "AP8=",
        "[1]",
        '{"a": 2}',
        '{"lat": 1.5, "code": "x"}',
    ]
    assert append(tmp_path, row_of_fields(fields, {str(n): one for n, one in enumerate(typed)})) == 1
    assert append(tmp_path, row_of_json(fields, "{}")) == 2
    rows = sorted(rows_of(tmp_path), key=lambda row: row["c0"] or "")
    assert rows[0] == dict.fromkeys(f"c{number}" for number in range(len(kinds)))
    assert list(rows[1].values()) == [
        "é",
        7,
        0.5,
        Decimal("1.25"),
        True,
        date(2013, 1, 31),
        datetime(2013, 1, 31, 10, tzinfo=UTC),
        b"\x00\xff",
        [1],
        [("a", 2)],
        {"lat": 1.5, "code": "x"},
    ]
    with pytest.raises(RowRefused, match="refused"):
        append(tmp_path, {"c3": Decimal("123456789012.1")})


def _schema(fields: list[dict[str, Any]]) -> Any:
    from deltalake import Schema

    return Schema.from_json(json.dumps({"type": "struct", "fields": fields}))


def log(table: Path, version: int, *lines: str) -> None:
    folder = table / "_delta_log"
    folder.mkdir(exist_ok=True)
    (folder / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def info(**more: Any) -> str:
    return json.dumps({"commitInfo": {"engineInfo": "Apache-Spark/4.2.0 Delta-Lake/4.4.0", **more}})


def test_the_history_says_what_each_commit_says_of_itself(tmp_path: Path) -> None:
    log(tmp_path, 0, info(operation="CREATE TABLE"))
    log(
        tmp_path,
        1,
        info(operation="WRITE", operationParameters={"mode": "Append"}, operationMetrics={"numOutputRows": "40"}),
    )
    log(
        tmp_path,
        2,
        '{"add": {}}',
        info(operation="DELETE", operationMetrics={"numDeletedRows": "3", "numOutputRows": "0"}),
    )
    log(tmp_path, 3, info(operation="OPTIMIZE", operationMetrics={"numAddedFiles": "1"}))
    log(tmp_path, 4, info(operation="WRITE", operationMetrics={"num_added_rows": 0}))
    entries, more = history(tmp_path)
    assert more is False
    assert [(one.version, one.operation, one.mode, one.rows, one.engine) for one in entries] == [
        (4, "WRITE", "", "0", "Apache-Spark/4.2.0"),
        (3, "OPTIMIZE", "", "", "Apache-Spark/4.2.0"),
        (2, "DELETE", "", "3 deleted", "Apache-Spark/4.2.0"),
        (1, "WRITE", "Append", "40 written", "Apache-Spark/4.2.0"),
        (0, "CREATE TABLE", "", "", "Apache-Spark/4.2.0"),
    ]
    assert all(one.at > 0 for one in entries)
    assert newest_version(tmp_path) == 4
    assert newest_version(tmp_path / "none") is None


@pytest.mark.parametrize(
    "lines",
    [
        ("",),
        ("not a log",),
        ('{"commitInfo": 7}',),
        ('{"commitInfo": {"operation"',),
        ('["commitInfo"]',),
        ('{"commitInfo": {"operationMetrics": [], "operationParameters": 3, "engineInfo": {}}}',),
        ('{"commitInfo": ' + "[" * 50_000,),
        ('{"add": "' + "x" * 600_000 + '"}', info(operation="WRITE")),
    ],
)
def test_a_commit_that_cannot_be_read_is_an_entry_all_the_same(tmp_path: Path, lines: tuple[str, ...]) -> None:
    log(tmp_path, 0, *lines)
    (entry,), _ = history(tmp_path)
    assert entry.version == 0
    assert entry.problem or entry.operation == ""


def test_a_long_history_is_read_a_part_at_a_time(tmp_path: Path) -> None:
    for version in range(120):
        log(tmp_path, version, info(operation=f"V{version}"))
    first, more = history(tmp_path)
    assert ([entry.version for entry in first], more) == (list(range(119, 69, -1)), True)
    last, more = history(tmp_path, before=20)
    assert ([entry.version for entry in last], more) == (list(range(19, -1, -1)), False)
