"""The names of the job parameters that a claim sends, documented in `core.parameters`, and those an author may add.

Apart from what reads and writes them: every DAG file with an operator pays for what is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.core.sources import DeltaTable, Source

TOKEN = "bridge_token"
RANGES = "bridge_ranges"
SUBSCRIPTION = "bridge_subscription"
FULL_REBUILD = "bridge_full_rebuild"
_RESERVED = "bridge_"
OF_EVERY_CLAIM = frozenset({SUBSCRIPTION, "bridge_epoch", "bridge_generation", TOKEN, RANGES, FULL_REBUILD})


def names_of(sources: Iterable[Source], own: Iterable[str]) -> set[str]:
    """Every parameter name that a claim on these sources will send; the job has to declare them."""
    names = {*OF_EVERY_CLAIM, *own}
    for source in sources:
        if isinstance(source, DeltaTable):
            names |= {f"{source.alias}_table", f"{source.alias}_start", f"{source.alias}_end"}
        else:
            names.add(f"{source.alias}_run_ids")
    return names


def as_of_name(alias: str) -> str:
    """The parameter that names the version whose state is to be read. A job need not declare it, but for a backfill."""
    return f"{alias}_as_of"


def as_of_names(sources: Iterable[Source]) -> dict[str, str]:
    """`as_of_name` of each table, by alias."""
    return {source.alias: as_of_name(source.alias) for source in sources if isinstance(source, DeltaTable)}


def declarable_names(sources: Iterable[Source], own: Iterable[str]) -> set[str]:
    """`names_of`, and those that are sent only to a job that declares them."""
    sources = tuple(sources)
    return names_of(sources, own) | set(as_of_names(sources).values())


def check_own(own: object, sources: Iterable[Source] = ()) -> None:
    """Raise InvalidArgument for author's parameters that a claim on these sources can never carry."""
    if not isinstance(own, Mapping):
        raise InvalidArgument(f"job_parameters is {type(own).__name__}; give a mapping of name to text")
    set_by_claim = declarable_names(sources, ())
    for name, value in own.items():
        if name.startswith(_RESERVED):
            raise InvalidArgument(f"job_parameters has {name!r}; names that begin with {_RESERVED} belong to the claim")
        if name in set_by_claim:
            raise InvalidArgument(f"job_parameters has {name!r}, which the claim itself sets; rename, or give alias=")
        if not isinstance(value, str):
            raise InvalidArgument(f"job_parameters[{name!r}] is {type(value).__name__}; the Jobs API takes strings")
