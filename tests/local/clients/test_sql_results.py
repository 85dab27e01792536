"""Results of SQL statements that are cut short or behind links, with the official SDK as client."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.sql.formats import rendered
from databricks_bridge.local.sql.model import SqlColumn

TEN = "SELECT range AS n, CASE WHEN range = 3 THEN NULL ELSE 'a,\"b' END AS t FROM range(10)"


@pytest.fixture
def warehouse(deployment: Deployment, ops: Any) -> str:
    deployment.workspaces["ops"].sql.chunk_rows = 4
    return str(next(iter(ops.warehouses.list())).id)


def linked(ops: Any, warehouse: str, form: str, text: str = TEN) -> Any:
    from databricks.sdk.service.sql import Disposition, Format

    answer = ops.statement_execution.execute_statement(
        text, warehouse, disposition=Disposition.EXTERNAL_LINKS, format=Format(form)
    )
    assert answer.status.state.value == "SUCCEEDED", answer.status
    return answer


def all_links(ops: Any, answer: Any) -> list[Any]:
    """The link of each chunk, as a client follows them."""
    (link,) = answer.result.external_links
    links = [link]
    while links[-1].next_chunk_index is not None:
        by_path = ops.api_client.do("GET", links[-1].next_chunk_internal_link)["external_links"]
        chunk = ops.statement_execution.get_statement_result_chunk_n(answer.statement_id, links[-1].next_chunk_index)
        assert [one["chunk_index"] for one in by_path] == [one.chunk_index for one in chunk.external_links]
        links += chunk.external_links
    return links


def fetched(link: Any) -> httpx.Response:
    return httpx.get(link.external_link)


def test_links_lead_to_chunks_of_json(ops: Any, warehouse: str) -> None:
    answer = linked(ops, warehouse, "JSON_ARRAY")
    assert answer.result.data_array is None
    links = all_links(ops, answer)
    parts = [fetched(link) for link in links]
    assert [row[0] for part in parts for row in part.json()] == [str(n) for n in range(10)]
    assert parts[0].text == r'[["0","a,\"b"],["1","a,\"b"],["2","a,\"b"],["3",null]]'
    assert [(link.row_offset, link.row_count) for link in links] == [(0, 4), (4, 4), (8, 2)]
    assert [link.byte_count for link in links] == [len(part.content) for part in parts]
    assert answer.manifest.total_byte_count == sum(len(part.content) for part in parts)
    assert [chunk.byte_count for chunk in answer.manifest.chunks] == [link.byte_count for link in links]


def test_links_lead_to_chunks_of_csv_with_one_header(ops: Any, warehouse: str) -> None:
    answer = linked(ops, warehouse, "CSV")
    assert answer.manifest.format.value == "CSV"
    parts = [fetched(link) for link in all_links(ops, answer)]
    assert parts[0].text.startswith('n,t\r\n0,"a,""b"\r\n')
    lines = list(csv.reader(io.StringIO("".join(part.text for part in parts), newline="")))
    assert lines == [["n", "t"], *([str(n), "null" if n == 3 else 'a,"b'] for n in range(10))]


def test_links_lead_to_chunks_of_arrow(ops: Any, warehouse: str) -> None:
    import pyarrow as pa

    parts = [fetched(link) for link in all_links(ops, linked(ops, warehouse, "ARROW_STREAM"))]
    table = pa.concat_tables([pa.ipc.open_stream(part.content).read_all() for part in parts])
    assert table.schema == pa.schema([("n", pa.int64()), ("t", pa.string())])
    assert table.column("n").to_pylist() == list(range(10))
    assert table.column("t")[3].as_py() is None


def test_arrow_has_the_types_of_the_columns() -> None:
    import pyarrow as pa

    given = [
        ("INT", "INT", "7", pa.int32(), 7),
        ("DOUBLE", "DOUBLE", "NaN", pa.float64(), None),
        ("DECIMAL", "DECIMAL(10,2)", "1.50", pa.decimal128(10, 2), Decimal("1.50")),
        ("BOOLEAN", "BOOLEAN", "true", pa.bool_(), True),
        ("DATE", "DATE", "2026-03-01", pa.date32(), datetime(2026, 3, 1).date()),
        (
            "TIMESTAMP",
            "TIMESTAMP",
            "2026-03-01T10:00:00.000Z",
            pa.timestamp("us", tz="Etc/UTC"),
            datetime(2026, 3, 1, 10, tzinfo=UTC),
        ),
        ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ", "2026-03-01T10:00:00.000", pa.timestamp("us"), datetime(2026, 3, 1, 10)),
        ("BINARY", "BINARY", "eA==", pa.binary(), b"x"),
        ("MAP", "MAP<STRING,INT>", '{"a":1}', pa.string(), '{"a":1}'),
        ("STRING", "STRING", "é", pa.string(), "é"),
    ]
    columns = [SqlColumn(f"c{number}", one[0], one[1]) for number, one in enumerate(given)]
    content = rendered("ARROW_STREAM", columns, [[one[2] for one in given], [None] * len(given)], first=True)
    table = pa.ipc.open_stream(content).read_all()
    assert table.schema.types == [one[3] for one in given]
    first, second = table.to_pylist()
    assert [first[f"c{number}"] for number in range(len(given)) if number != 1] == [
        one[4] for number, one in enumerate(given) if number != 1
    ]
    assert first["c1"] != first["c1"]
    assert set(second.values()) == {None}
    assert pa.ipc.open_stream(rendered("ARROW_STREAM", columns, [], first=True)).read_all().num_rows == 0


def test_a_link_is_fetched_without_a_token_by_its_signature_and_in_time(
    deployment: Deployment, ops: Any, warehouse: str
) -> None:
    answer = linked(ops, warehouse, "JSON_ARRAY")
    (link,) = answer.result.external_links
    token = {"Authorization": f"Bearer {deployment.token('ops')}"}
    refused = httpx.get(link.external_link, headers=token)
    assert (refused.status_code, refused.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert "without an Authorization header" in refused.json()["message"]
    url = httpx.URL(link.external_link)
    expires = datetime.fromisoformat(link.expiration).timestamp()
    assert 0 < expires - datetime.now(UTC).timestamp() <= 900
    for forged in (
        url.copy_set_param("expires", str(int(expires) + 60)),
        url.copy_set_param("signature", "é"),
        url.copy_with(path=url.path[:-1] + "1"),
    ):
        assert httpx.get(forged).json()["error_code"] == "ACCESS_DENIED"
    assert httpx.get(url.copy_remove_param("signature")).status_code == 400
    elsewhere = str(url).replace(deployment.host("ops"), deployment.host("met"))
    assert httpx.get(elsewhere).json()["error_code"] == "ACCESS_DENIED"
    assert fetched(link).status_code == 200
    ops.api_client.do("POST", "/local/faults", body={"kind": "clock", "seconds": 901})
    assert "has expired" in fetched(link).json()["message"]
    again = ops.statement_execution.get_statement(answer.statement_id).result.external_links[0]
    assert fetched(again).status_code == 200


def test_a_result_without_rows_has_no_links(ops: Any, warehouse: str) -> None:
    answer = linked(ops, warehouse, "CSV", "SELECT 1 AS n WHERE false")
    assert not answer.result.external_links
    assert (answer.manifest.total_row_count, answer.manifest.total_byte_count) == (0, 0)


def test_a_byte_limit_keeps_whole_rows_and_says_that_it_truncated(ops: Any, warehouse: str) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    run = ops.statement_execution.execute_statement
    text = "SELECT 'abcd' AS t FROM range(10)"
    for limit, rows, truncated in ((11, 2, True), (40, 10, False), (3, 0, True)):
        answer = run(text, warehouse, byte_limit=limit)
        assert (answer.manifest.total_row_count, answer.manifest.truncated) == (rows, truncated)
    assert run(text, warehouse, byte_limit=400, row_limit=3).manifest.truncated is True
    with pytest.raises(InvalidParameterValue, match="byte_limit must be"):
        run(text, warehouse, byte_limit=0)


def test_more_than_the_answer_may_hold_goes_behind_links(
    ops: Any, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from databricks_bridge.local.sql import statements

    monkeypatch.setattr(statements, "INLINE_BYTES", 30)
    failed = ops.statement_execution.execute_statement(TEN, warehouse)
    assert "Inline byte limit exceeded" in failed.status.error.message
    assert linked(ops, warehouse, "JSON_ARRAY").manifest.total_row_count == 10
