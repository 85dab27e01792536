"""The bounds of explicit ranges, as an author writes them: `{"flights": (3, 7)}`, from exclusive, to inclusive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.positions import BEFORE_FIRST
from databricks_bridge.core.sources import DeltaTable, Source

Bounds = Mapping[str, tuple[int, int]]


def bounds_of(value: object, sources: Sequence[Source]) -> dict[str, tuple[int, int]]:
    """`range=` after rendering, as numbers: `{"flights": (3, 7)}`, or the same as JSON text.

    Every source is named; `(n, n)` gives nothing of that table. Raises InvalidArgument.
    """
    given = _mapping(value)
    check_sources(sources)
    known = {source.alias for source in sources}
    for names, what in ((set(given) - known, "names no source"), (known - set(given), "leaves out")):
        if names:
            raise InvalidArgument(
                f"range {what} {', '.join(sorted(map(str, names)))}; name every source of the subscription by its alias "
                f"({', '.join(sorted(known))}), with (n, n) where there is nothing to process"
            )
    bounds = {alias: _pair(alias, pair) for alias, pair in given.items()}
    if all(from_ == to for from_, to in bounds.values()):
        raise InvalidArgument(f"range {bounds} is empty; from is exclusive, to is inclusive")
    return bounds


def check_sources(sources: Iterable[Source]) -> None:
    """Raise InvalidArgument where a source has no versions to give a range of."""
    runs = sorted(source.alias for source in sources if not isinstance(source, DeltaTable))
    if runs:
        raise InvalidArgument(
            f"range= is for tables; {', '.join(runs)} is a source of triggered runs, which have no versions. Run the job "
            "itself on what they produced"
        )


def _mapping(value: object) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InvalidArgument(f"range is the text {value!r}, which is no JSON ({error})") from error
    if not isinstance(value, Mapping):
        raise InvalidArgument(f'range is {value!r}; give alias to (from, to), as in {{"flights": (3, 7)}}')
    return value


def _pair(alias: str, value: object) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InvalidArgument(f"range of {alias} is {value!r}; give (from, to): from is exclusive, to is inclusive")
    from_, to = (_version(alias, one) for one in value)
    if from_ > to:
        raise InvalidArgument(f"range of {alias} is ({from_}, {to}), which ends before it begins")
    return from_, to


def _version(alias: str, value: object) -> int:
    """A version as a number or digits; -1 is before the first commit."""
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text == str(BEFORE_FIRST) or text.isdecimal():
        return int(text)
    raise InvalidArgument(f"range of {alias} has the version {value!r}; give a number from {BEFORE_FIRST} on")
