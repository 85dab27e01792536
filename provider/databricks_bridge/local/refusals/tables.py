"""The tables of the documents: what stands between `<!-- refusals: AREA -->` and `<!-- end of refusals -->`."""

from __future__ import annotations

import re

from databricks_bridge.local.refusals import ALL
from databricks_bridge.local.refusals.model import Area

_PLACE = re.compile(r"(<!-- refusals: (\w+) -->\n).*?(<!-- end of refusals -->)", re.DOTALL)
_HEAD = "| not served | the words of the refusal | source |\n| --- | --- | --- |\n"


def table(area: Area) -> str:
    """The entries of an area as a Markdown table."""
    entries = [entry for entry in ALL if entry.area is area]
    if not entries:
        return "Nothing.\n"
    return _HEAD + "".join(f"| {_cell(one.name)} | {_cell(one.words)} | {_cell(one.source)} |\n" for one in entries)


def written(document: str) -> str:
    """The document with its tables as the list has them. Raises ValueError for a marker of an area that there is not."""
    return _PLACE.sub(lambda found: f"{found[1]}{table(Area(found[2]))}{found[3]}", document)


def areas_in(document: str) -> list[Area]:
    """The areas that a document has a table of."""
    return [Area(found[1]) for found in _PLACE.findall(document)]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
