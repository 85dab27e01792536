"""A chunk of a result as bytes, in the formats of the disposition EXTERNAL_LINKS."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from databricks_bridge.local.sql.model import SqlColumn

FORMATS: Mapping[str, str] = {
    "JSON_ARRAY": "application/json",
    "CSV": "text/csv",
    "ARROW_STREAM": "application/vnd.apache.arrow.stream",
}
"""The media type of each format."""
Rows = Sequence[Sequence[str | None]]

_WHOLE = {"BYTE": "int8", "SHORT": "int16", "INT": "int32", "LONG": "int64"}
_READ: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(_WHOLE, int),
    "FLOAT": float,
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "BOOLEAN": lambda text: text == "true",
    "DATE": date.fromisoformat,
    "TIMESTAMP": datetime.fromisoformat,
    "TIMESTAMP_NTZ": datetime.fromisoformat,
    "BINARY": base64.b64decode,
}


def rendered(form: str, columns: Sequence[SqlColumn], rows: Rows, *, first: bool) -> bytes:
    """The rows in one of FORMATS; a CSV has its header in the `first` chunk alone."""
    if form == "JSON_ARRAY":
        return json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode()
    return _csv(columns, rows, first) if form == "CSV" else _arrow(columns, rows)


def _csv(columns: Sequence[SqlColumn], rows: Rows, first: bool) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if first:
        writer.writerow([column.name for column in columns])
    writer.writerows([["null" if cell is None else cell for cell in row] for row in rows])
    return text.getvalue().encode()


def _arrow(columns: Sequence[SqlColumn], rows: Rows) -> bytes:
    import pyarrow as pa

    cells = zip(*rows, strict=True) if rows else [()] * len(columns)
    arrays = [
        pa.array(
            [None if cell is None else _READ.get(column.type_name, str)(cell) for cell in values],
            _arrow_type(pa, column),
        )
        for column, values in zip(columns, cells, strict=True)
    ]
    batch = pa.record_batch(arrays, names=[column.name for column in columns])
    out = io.BytesIO()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return out.getvalue()


def _arrow_type(pa: Any, column: SqlColumn) -> Any:
    """Nested values and what else has no type of its own here stay text."""
    kind = column.type_name
    if kind in _WHOLE:
        return getattr(pa, _WHOLE[kind])()
    if kind == "DECIMAL":
        precision, _, scale = column.type_text.partition("(")[2].rstrip(")").partition(",")
        return pa.decimal128(int(precision or 10), int(scale or 0))
    simple = {
        "FLOAT": pa.float32,
        "DOUBLE": pa.float64,
        "BOOLEAN": pa.bool_,
        "DATE": pa.date32,
        "BINARY": pa.binary,
        "NULL": pa.null,
    }
    if kind in simple:
        return simple[kind]()
    if kind in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return pa.timestamp("us", tz="Etc/UTC" if kind == "TIMESTAMP" else None)
    return pa.string()
