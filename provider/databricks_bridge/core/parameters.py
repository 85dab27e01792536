"""What a claim tells its run, as job parameters, and how to read it back from a run.

Documented names: `bridge_subscription`, `bridge_epoch`, `bridge_generation`, `bridge_token`, `bridge_ranges` (JSON),
and for each table `<alias>_table` (the reader's name), `<alias>_start` (from + 1, as the change feed wants it) and
`<alias>_end`; for each job `<alias>_run_ids` (JSON list). `start > end` means nothing new in that table, `start` 0 the
whole table up to `end`. `bridge_full_rebuild` (JSON list) names the aliases of tables that are to be read whole, in place of
all that was made of them before.

`<alias>_as_of`, for a job that declares it: `start` to `end` say what was touched, and this is the version to read the
touched rows as of. In a claim it is `end`; in a backfill it is the newest version, never older than what the subscription
has processed, because old state written over newer results would undo them.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from typing import Any

from databricks_bridge.core.errors import BadAnswer, InvalidArgument
from databricks_bridge.core.parameter_names import FULL_REBUILD, OF_EVERY_CLAIM, RANGES, SUBSCRIPTION, TOKEN, as_of_name
from databricks_bridge.core.positions import BEFORE_FIRST, Range, RunsPosition, TablePosition, position_from_json


def render(
    subscription: str,
    epoch: str,
    generation: int,
    token: str,
    ranges: Iterable[Range],
    own: Mapping[str, str],
    *,
    as_of: Mapping[str, int] | None = None,
    rebuild: Container[str] | None = None,
) -> tuple[tuple[str, str], ...]:
    """All job parameters of a claim, sorted. Raises InvalidArgument where the author's collide with the claim's.

    :param own: the author's own parameters
    :param as_of: for each alias whose `<alias>_as_of` is sent, that version
    :param rebuild: aliases that may be named in `bridge_full_rebuild`; any that begins before its first commit, unless given
    """
    ranges = tuple(ranges)
    whole = [one.alias for one in ranges if _is_whole(one) and (rebuild is None or one.alias in rebuild)]
    ours = {
        SUBSCRIPTION: subscription,
        "bridge_epoch": epoch,
        "bridge_generation": str(generation),
        TOKEN: token,
        RANGES: json.dumps([_range_value(one) for one in ranges], sort_keys=True),
        FULL_REBUILD: json.dumps(whole),
        **{as_of_name(alias): str(version) for alias, version in (as_of or {}).items()},
    }
    for one in ranges:
        ours |= _named(one)
    both = sorted(set(ours) & set(own))
    if both:
        raise InvalidArgument(
            f"job_parameters has {', '.join(both)}, which the claim itself sets; rename or give alias="
        )
    return tuple(sorted((ours | dict(own)).items()))


def names_of_ranges(ranges: Iterable[Range]) -> set[str]:
    """The parameter names that a claim on these ranges sets itself."""
    ranges = tuple(ranges)
    return set(OF_EVERY_CLAIM).union(*map(_named, ranges), (as_of_name(one.alias) for one in ranges))


def of_run(run: Mapping[str, Any]) -> dict[str, str]:
    """The job parameters with which a run was started (`job_parameters[].value` of `runs/get`)."""
    given = run.get("job_parameters") or []
    return {one["name"]: one.get("value", one.get("default", "")) for one in given if "name" in one}


def ranges_of(parameters: Mapping[str, str], read: Mapping[str, str]) -> tuple[Range, ...]:
    """The ranges that a run was given. `read` maps alias to reader name, for what the parameters leave out.

    Raises BadAnswer when the run carries no ranges of ours.
    """
    try:
        values = json.loads(parameters[RANGES])
        return tuple(_range_of(value, read) for value in values)
    except (KeyError, TypeError, ValueError) as error:
        raise BadAnswer(
            f"the run does not show the ranges it was given ({error!r}); the job must declare the parameter {RANGES}"
        ) from error


def _named(one: Range) -> dict[str, str]:
    if isinstance(one.from_, TablePosition) and isinstance(one.to, TablePosition):
        return {
            f"{one.alias}_table": one.name,
            f"{one.alias}_start": str(one.from_.at + 1),
            f"{one.alias}_end": str(one.to.at),
        }
    return {f"{one.alias}_run_ids": json.dumps(list(one.runs))}


def _is_whole(one: Range) -> bool:
    return isinstance(one.from_, TablePosition) and one.from_.version == BEFORE_FIRST and not one.empty


def _range_value(one: Range) -> dict[str, Any]:
    if isinstance(one.from_, TablePosition) and isinstance(one.to, TablePosition):
        return {
            "alias": one.alias,
            "table": one.name,
            "table_id": one.to.table_id,
            "metadata_id": one.to.metadata_id,
            "from": one.from_.at,
            "from_committed": one.from_.version,
            "from_ids": [one.from_.table_id, one.from_.metadata_id],
            "from_fingerprint": one.from_.fingerprint,
            "from_found": one.from_.found,
            "to": one.to.at,
            "to_fingerprint": one.to.fingerprint,
        }
    return {"alias": one.alias, "job": one.name, "from": one.from_.to_json(), "to": one.to.to_json(), "runs": one.runs}


def _range_of(value: Mapping[str, Any], read: Mapping[str, str]) -> Range:
    alias = value["alias"]
    if "job" in value:
        from_, to = position_from_json(value["from"]), position_from_json(value["to"])
        if not (isinstance(from_, RunsPosition) and isinstance(to, RunsPosition)):
            raise ValueError(f"{alias} mixes runs and versions")
        return Range(alias, value["job"], from_, to, tuple(value["runs"]))
    table_id, metadata_id = value["table_id"], value["metadata_id"]
    from_table_id, from_metadata_id = value["from_ids"]
    at, committed = value["from"], value.get("from_committed", value["from"])
    through = at if at != committed else None
    from_ = TablePosition(
        committed, from_table_id, from_metadata_id, value["from_fingerprint"], value["from_found"], through
    )
    to = from_ if value["to"] == at else TablePosition(value["to"], table_id, metadata_id, value["to_fingerprint"])
    return Range(alias, value.get("table") or read[alias], from_, to)
