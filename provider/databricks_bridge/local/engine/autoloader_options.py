"""The options of `format("cloudFiles")`, read into one value. What cannot be served is refused by name.

Names, defaults and meanings are those of Databricks' Auto Loader options page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine.errors import NotServedHere

PREFIX = "cloudfiles."
RESCUED = "_rescued_data"
DEFAULT_MAX_FILES = "1000"
NO_AGE = "36500d"
"""Spark's source passes over files that are a week older than the newest one; Auto Loader takes every file."""

# They change how Databricks finds files, and at what price. Here files are always found by listing.
_DISCOVERY = frozenset(
    [
        "usenotifications",
        "usemanagedfileevents",
        "useincrementallisting",
        "backfillinterval",
        "validateoptions",
        "fetchparallelism",
    ]
)
# Served with this value only, which is Databricks' default.
_ONLY = {"includeexistingfiles": "true", "allowoverwrites": "false", "cleansource": "off"}
_COMMON = frozenset(["pathglobfilter"])
_TIME = frozenset(["dateformat", "timestampformat", "timestampntzformat", "timezone", "locale"])
_BY_FORMAT = {
    "json": _TIME
    | frozenset(
        [
            "allowcomments",
            "allowsinglequotes",
            "allowunquotedfieldnames",
            "allownumericleadingzeros",
            "allownonnumericnumbers",
            "allowbackslashescapinganycharacter",
            "multiline",
        ]
    ),
    "csv": _TIME
    | frozenset(
        "header sep delimiter quote escape comment nullvalue emptyvalue encoding charset multiline lineSep "
        "ignoreleadingwhitespace ignoretrailingwhitespace".lower().split()
    ),
    "parquet": frozenset(["datetimerebasemode", "int96rebasemode"]),
    "orc": frozenset[str](),
    "text": frozenset(["wholetext", "linesep", "encoding"]),
    "binaryfile": frozenset[str](),
}
_RESCUING = frozenset(["json", "csv"])
FIXED_SCHEMA = frozenset(["text", "binaryfile"])


class Evolution(Enum):
    """`cloudFiles.schemaEvolutionMode`."""

    ADD_NEW_COLUMNS = "addnewcolumns"
    FAIL_ON_NEW_COLUMNS = "failonnewcolumns"
    RESCUE = "rescue"
    NONE = "none"


_MODES_BY_FORMAT = {
    "json": frozenset(Evolution),
    # Spark reads CSV by position and can only compare the header, so nothing can be passed over or rescued.
    "csv": frozenset([Evolution.ADD_NEW_COLUMNS, Evolution.FAIL_ON_NEW_COLUMNS]),
    # Spark's readers of these formats do not tell when a file has more columns.
    "parquet": frozenset([Evolution.NONE]),
    "orc": frozenset([Evolution.NONE]),
}


@dataclass(frozen=True)
class LoaderOptions:
    """One stream's options. `source` are those for Spark's file source, with lower-case names."""

    format: str
    schema_location: str | None = None
    infer_column_types: bool = False
    schema_hints: str | None = None
    evolution: Evolution = Evolution.NONE
    rescued: str | None = None
    partition_columns: tuple[str, ...] | None = None
    source: dict[str, str] = field(default_factory=dict)


def parse_options(options: Mapping[str, str], *, has_schema: bool) -> LoaderOptions:
    """The options of one `load`. `has_schema` says whether `.schema(...)` was given.

    Raises NotServedHere for an option or value that is not served, InvalidArgument for one that Databricks refuses too.
    """
    given = {name.lower(): value for name, value in options.items()}
    ours = {name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)}
    others = {name: value for name, value in given.items() if not name.startswith(PREFIX) and name != "path"}
    format_ = _format(ours.pop("format", None))
    rescued = others.pop("rescueddatacolumn", ours.pop("rescueddatacolumn", None))
    location = ours.pop("schemalocation", None)
    infer = _flag("cloudFiles.inferColumnTypes", ours.pop("infercolumntypes", "false"))
    hints = ours.pop("schemahints", None)
    inferred = not has_schema and format_ not in FIXED_SCHEMA
    evolution = _evolution(ours.pop("schemaevolutionmode", None), format_, inferred)
    if rescued is not None and format_ not in _RESCUING:
        raise NotServedHere(f"rescuedDataColumn is served for json and csv here, not for {format_}.")
    folders = ours.pop("partitioncolumns", None)
    partition_columns = None if folders is None else tuple(name.strip() for name in folders.split(",") if name.strip())
    if inferred and location is None:
        raise InvalidArgument(
            "Give cloudFiles.schemaLocation, where the inferred schema is kept, or give the schema with .schema(...)."
        )
    if hints is not None and not inferred:
        raise InvalidArgument("cloudFiles.schemaHints is for an inferred schema, and here the schema is given.")
    if inferred and format_ in _RESCUING and evolution is not Evolution.NONE:
        rescued = rescued or RESCUED
    source = {"recursivefilelookup": "true", "maxfilespertrigger": ours.pop("maxfilespertrigger", DEFAULT_MAX_FILES)}
    source["maxfileage"] = NO_AGE
    spelled = {name.lower().removeprefix(PREFIX): name for name in options}
    if "maxbytespertrigger" in ours:
        raise NotServedHere("cloudFiles.maxBytesPerTrigger is not served; use cloudFiles.maxFilesPerTrigger.")
    _refuse_others(ours, spelled)
    source |= _source_options(others, format_, spelled)
    return LoaderOptions(format_, location, infer, hints, evolution, rescued, partition_columns, source)


def _format(value: str | None) -> str:
    if value is None:
        raise InvalidArgument("Give cloudFiles.format: json, csv, parquet, orc, text or binaryFile.")
    if value.lower() not in _BY_FORMAT:
        raise NotServedHere(
            f"cloudFiles.format {value!r} is not served; json, csv, parquet, orc, text, binaryFile are."
        )
    return value.lower()


def _evolution(value: str | None, format_: str, inferred: bool) -> Evolution:
    if value is None:
        mode = Evolution.ADD_NEW_COLUMNS if inferred else Evolution.NONE
    else:
        try:
            mode = Evolution(value.lower())
        except ValueError:
            raise NotServedHere(f"cloudFiles.schemaEvolutionMode {value!r} is not served.") from None
    if not inferred and mode is not Evolution.NONE:
        raise InvalidArgument(f"cloudFiles.schemaEvolutionMode {value!r} needs an inferred schema; here it is given.")
    if inferred and mode not in _MODES_BY_FORMAT[format_]:
        served = ", ".join(sorted(mode.value for mode in _MODES_BY_FORMAT[format_]))
        raise NotServedHere(
            f"cloudFiles.schemaEvolutionMode {mode.value} is not served for {format_} (served: {served}); "
            "give the schema with .schema(...) instead."
        )
    return mode


def _refuse_others(ours: dict[str, str], spelled: Mapping[str, str]) -> None:
    for name, value in ours.items():
        if name in _DISCOVERY or _ONLY.get(name) == value.lower():
            continue
        if name in _ONLY:
            raise NotServedHere(
                f"{spelled[name]} is served by the local workspace with the value {_ONLY[name]} only, not {value!r}."
            )
        raise NotServedHere(f"The option {spelled[name]} is not served by the local workspace.")


def _source_options(others: dict[str, str], format_: str, spelled: Mapping[str, str]) -> dict[str, str]:
    for name in others:
        if name not in _COMMON | _BY_FORMAT[format_]:
            raise NotServedHere(
                f"The option {spelled[name]} is not served by the local workspace for cloudFiles with format {format_}."
            )
    return others


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidArgument(f"{name} is true or false, not {value!r}.")
    return value.lower() == "true"
