"""Columns of Auto Loader from folders named `name=value`, as `.../day=2026-06-09/a.json`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

EMPTY = "__HIVE_DEFAULT_PARTITION__"
"""The value of the folder of rows that have none."""
MARK = "databricks_bridge.partition"
"""In the metadata of a column of a kept schema: it comes from folders."""
_FOLDER = re.compile(r"^([^=/]+)=([^/]*)$")


def folder_values(files: Iterable[str], root: str) -> dict[str, list[str]]:
    """The values of each column that the folders of all these files name, in their order.

    Files whose folders name different columns have none, as on Databricks.

    :param files: URIs of files below `root`
    :param root: the path that is loaded
    """
    found: dict[str, list[str]] | None = None
    for file in files:
        own = _values(file, root)
        if found is None:
            found = {name: [] for name in own}
        if list(own) != list(found):
            return {}
        for name, value in own.items():
            found[name].append(value)
    return found or {}


def named_values(files: Iterable[str], root: str, names: Sequence[str]) -> dict[str, list[str]]:
    """The values of the columns of these names, which folders may have or not."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for file in files:
        for name, value in _values(file, root).items():
            if name in found:
                found[name].append(value)
    return found


def _values(file: str, root: str) -> dict[str, str]:
    path = unquote(urlsplit(file).path) if file.startswith("file:") else file
    inner = path.removeprefix(root.rstrip("/")).split("/")[:-1]
    return {match[1]: unquote(match[2]) for part in inner if (match := _FOLDER.match(part))}


def typed_field(name: str, values: Iterable[str], infer: bool) -> StructField:
    """The column for these values: text, or where types are inferred what all of them are."""
    from pyspark.sql import types as T

    known = {value for value in values if value != EMPTY}
    kinds: tuple[tuple[Any, Callable[[str], Any]], ...] = (
        (T.IntegerType(), _int32),
        (T.LongType(), int),
        (T.DoubleType(), float),
        (T.DateType(), date.fromisoformat),
    )
    fitting = (kind for kind, read in kinds if known and all(_is(read, value) for value in known))
    return T.StructField(name, next(fitting, T.StringType()) if infer else T.StringType(), True, {MARK: True})


def _int32(text: str) -> int:
    number = int(text)
    if not -(2**31) <= number < 2**31:
        raise ValueError(text)
    return number


def _is(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    # Python is freer than SQL in how numbers are written.
    return "_" not in text and text == text.strip()


def with_partitions(frame: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """The frame with these columns, from the path of each row's file; a column of that name in the files gives way."""
    for field in fields:
        frame = frame.withColumn(field.name, _column(field))
    return frame


def _column(field: StructField) -> Column:
    from pyspark.sql import functions as F

    folder = F.regexp_extract(F.col("_metadata.file_path"), f"/{re.escape(_escaped(field.name))}=([^/]*)/", 1)
    value: Any = folder
    for _ in range(2):  # once for the address of the file, once for what may not be in a folder's name
        value = F.url_decode(F.replace(value, F.lit("+"), F.lit("%2B")))
    text = F.when((value != "") & (value != EMPTY), value)
    return text.cast(field.dataType)


def _escaped(name: str) -> str:
    return name.replace(" ", "%20")
