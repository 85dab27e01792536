"""Three-part names: taking `catalog.schema.table` apart, and quoting it for SQL."""

from __future__ import annotations

import re

from databricks_bridge.core.errors import InvalidArgument

# a part is quoted in backticks, where a backtick is written twice, or has neither dots nor backticks
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def split(full_name: str) -> tuple[str, str, str]:
    """Catalog, schema and table, without their backticks. Raises InvalidArgument."""
    parts: list[str] = []
    at = 0
    while found := _PART.match(full_name, at):
        parts.append(found[1].replace("``", "`") if found[1] is not None else found[2])
        at = found.end()
        if full_name[at : at + 1] != ".":
            break
        at += 1
    if at != len(full_name) or len(parts) != 3 or not all(part.strip() for part in parts):
        raise InvalidArgument(f"{full_name!r} is not a three-part name; write catalog.schema.table")
    return parts[0], parts[1], parts[2]


def plain(full_name: str) -> str:
    """The name as Unity Catalog's REST API takes it: without backticks."""
    return ".".join(split(full_name))


def quoted(full_name: str) -> str:
    """The name as SQL takes it, whatever is in it: each part in backticks."""
    return ".".join("`{}`".format(part.replace("`", "``")) for part in split(full_name))
