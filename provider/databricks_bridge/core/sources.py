"""What a subscription can watch: a Delta table, or the runs that Databricks fired for a job."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from databricks_bridge.core.errors import InvalidArgument

Start: TypeAlias = Literal["latest", "earliest"] | int
"""Where a first start begins: after the newest position, before the oldest one, or after this table version."""

TRIGGER_KINDS = frozenset(
    {
        "CONTINUOUS",
        "CONTINUOUS_RESTART",
        "FILE_ARRIVAL",
        "JOB_COMPLETION",
        "MODEL",
        "ONE_TIME",
        "PERIODIC",
        "RETRY",
        "RUN_JOB_TASK",
        "TABLE",
    }
)
"""Values of `run.trigger` (Jobs API 2.2, `TriggerType`; MODEL is documented there but missing from the SDK's enum)."""

RESULT_STATES = frozenset(
    {
        "CANCELED",
        "FAILED",
        "MAXIMUM_CONCURRENT_RUNS_REACHED",
        "SUCCESS",
        "SUCCESS_WITH_FAILURES",
        "TIMEDOUT",
        "UPSTREAM_CANCELED",
        "UPSTREAM_FAILED",
    }
)
"""Values of a finished run's `state.result_state` (Jobs API 2.2, `RunResultState`) that a wait may name."""

_ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class DeltaTable:
    """A Delta table whose versions are the position.

    `table` is `catalog.schema.table` as its own workspace names it, `read_as` the name under which the consumer's
    workspace reads it (a shared catalog), by default the same. `alias` names it in job parameters
    (`<alias>_table`, `<alias>_start`, `<alias>_end`), by default the last part of `table`. `start` overrides the
    subscription's `start` for this source. `via` says who is asked for the newest version: "log", "catalog", "sharing" (with
    `profile`, the path of an open-sharing profile) or "sql" (with `warehouse`, its name: every look wakes it); by default
    the kind of the table decides between log and catalog.

    `reads` is how the consumer reads what is new: "batch", or "stream" for a stream with a checkpoint. Delta refuses a batch what is
    older than `delta.deletedFileRetentionDuration` of the table, a week by default; that is a history gap then.

    Where the reader under `read_as` can be asked for its version too, a range ends at the older of the two: with
    `reader_profile`, the path of its open-sharing profile (followed by `#share.schema.table` where the share calls the table
    otherwise than `read_as` does), or by SQL with `reader_conn_id`, the connection of the workspace that reads it, and
    `reader_warehouse`, a SQL warehouse there, by name: each look that finds new data wakes it. Raises InvalidArgument.
    """

    table: str
    databricks_conn_id: str = "databricks_default"
    read_as: str | None = None
    alias: str = ""
    start: Start | None = None
    via: Literal["log", "catalog", "sharing", "sql"] | None = None
    profile: str | None = None
    warehouse: str | None = None
    reader_profile: str | None = None
    reader_conn_id: str | None = None
    reader_warehouse: str | None = None
    reads: Literal["batch", "stream"] = "batch"

    def __post_init__(self) -> None:
        check_table_name(self.table, "table")
        texts = ("profile", "warehouse", "reader_profile", "reader_conn_id", "reader_warehouse")
        check_text(self.databricks_conn_id, f"databricks_conn_id of {self.table}")
        for name in texts:
            if getattr(self, name) is not None:
                check_text(getattr(self, name), f"{name} of {self.table}")
        if self.read_as is not None:
            check_table_name(self.read_as, "read_as")
        _check_via(self)
        object.__setattr__(self, "alias", self.alias or _alias_of(self.table.rpartition(".")[2].strip("`")))
        _check_alias(self.alias, self.table)
        check_start(self.start, f"start of {self.table}", versions=True)
        _check_reader(self)
        if self.reads not in ("batch", "stream"):
            raise InvalidArgument(f"reads of {self.table} is {self.reads!r}; give 'batch' or 'stream'")

    @property
    def reader_name(self) -> str:
        """The name that the consumer's notebook reads."""
        return self.read_as or self.table


@dataclass(frozen=True, kw_only=True)
class TriggeredRuns:
    """The finished runs of one job, of the given trigger kinds and results, as a source.

    Give `job_id` or `job_name` (exact). `triggers` are values of `run.trigger`; `TABLE_UPDATE`, the name in job
    settings, is accepted for `TABLE`. `run_state` names the result states that count. `writes` are tables that the job writes,
    DeltaTable or names in the same workspace: they become sources too, and a run that counts means to look at them, so that
    their versions are claimed with it; without a new run nothing is new in them. Raises InvalidArgument.
    """

    databricks_conn_id: str = "databricks_default"
    job_id: int | None = None
    job_name: str | None = None
    triggers: frozenset[str] = frozenset({"FILE_ARRIVAL", "TABLE"})
    run_state: frozenset[str] = frozenset({"SUCCESS"})
    alias: str = ""
    start: Start | None = None
    writes: tuple[DeltaTable, ...] = ()

    def __post_init__(self) -> None:
        check_job(self.job_id, self.job_name, "TriggeredRuns")
        check_text(self.databricks_conn_id, "databricks_conn_id of TriggeredRuns")
        if self.job_id is not None and (not isinstance(self.job_id, int) or isinstance(self.job_id, bool)):
            raise InvalidArgument(f"job_id of TriggeredRuns is {self.job_id!r}; give the number")
        object.__setattr__(self, "triggers", normalised_triggers(self.triggers))
        object.__setattr__(self, "run_state", normalised_run_state(self.run_state))
        object.__setattr__(self, "alias", self.alias or _alias_of(self.job_name or f"job_{self.job_id}"))
        _check_alias(self.alias, self.job_name or str(self.job_id))
        check_start(self.start, "start of TriggeredRuns", versions=False)
        object.__setattr__(self, "writes", _tables(self.writes, self.databricks_conn_id))

    @property
    def job(self) -> str:
        """The job as a person would name it."""
        return self.job_name if self.job_name is not None else str(self.job_id)


Source: TypeAlias = DeltaTable | TriggeredRuns


def check_table_name(name: object, field: str) -> None:
    """Raise InvalidArgument unless `name` has the three parts of Unity Catalog."""
    if not isinstance(name, str) or len(name.split(".")) != 3 or not all(part.strip() for part in name.split(".")):
        raise InvalidArgument(f"{field} is {name!r}; give the three-part name catalog.schema.table")


def check_text(value: object, field: str) -> None:
    """Raise InvalidArgument unless `value` is text with something in it: a path or a callable shows only later, elsewhere."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"{field} is {value!r}; give text")


def check_job(job_id: object, job_name: object, owner: str) -> None:
    """Raise InvalidArgument unless exactly one of `job_id` and `job_name` is given."""
    if (job_id is None) == (job_name is None):
        raise InvalidArgument(f"{owner} needs exactly one of job_id and job_name")
    if job_name is not None and not (isinstance(job_name, str) and job_name.strip()):
        raise InvalidArgument(f"job_name of {owner} is {job_name!r}; give the job's exact name")


def check_start(start: object, field: str, *, versions: bool) -> None:
    """Raise InvalidArgument unless `start` is None, latest, earliest or, where allowed, a table version."""
    if start is None or start in ("latest", "earliest"):
        return
    if versions and isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return
    wanted = '"latest", "earliest" or a version from 0 on' if versions else '"latest" or "earliest"'
    raise InvalidArgument(f"{field} is {start!r}; give {wanted}")


def normalised_triggers(triggers: Iterable[str]) -> frozenset[str]:
    """The kinds as `run.trigger` has them. Raises InvalidArgument for an unknown kind, an empty set or a bare string."""
    given = _names(triggers, "triggers")
    kinds = frozenset("TABLE" if kind == "TABLE_UPDATE" else kind for kind in given)
    _refuse_unknown(kinds, TRIGGER_KINDS, "triggers")
    return kinds


def normalised_run_state(run_state: Iterable[str]) -> frozenset[str]:
    """The result states that count. Raises InvalidArgument for an unknown one, an empty set or a bare string."""
    states = _names(run_state, "run_state")
    _refuse_unknown(states, RESULT_STATES, "run_state")
    return states


def _check_via(table: DeltaTable) -> None:
    if table.via not in (None, "log", "catalog", "sharing", "sql"):
        raise InvalidArgument(f'via of {table.table} is {table.via!r}; use "log", "catalog", "sharing" or "sql"')
    for needed, via in ((table.profile, "sharing"), (table.warehouse, "sql")):
        what = "profile" if via == "sharing" else "warehouse"
        if (needed is not None) != (table.via == via):
            raise InvalidArgument(f"{table.table}: via={via!r} and {what}= go together")


def _check_reader(table: DeltaTable) -> None:
    given = [
        name for name in ("reader_profile", "reader_conn_id", "reader_warehouse") if getattr(table, name) is not None
    ]
    if not given:
        return
    if table.read_as is None:
        raise InvalidArgument(f"{table.table}: {given[0]}= asks the reader for its version; give read_as= too")
    if given not in (["reader_profile"], ["reader_conn_id", "reader_warehouse"]):
        raise InvalidArgument(
            f"{table.table}: give reader_profile=, or reader_conn_id= and reader_warehouse= together; got {', '.join(given)}"
        )
    for name in given:
        if not (isinstance(value := getattr(table, name), str) and value.strip()):
            raise InvalidArgument(f"{name} of {table.table} is {value!r}; give a name or a path")
    if table.reader_profile is not None and (shared_as := table.reader_profile.partition("#")[2]):
        check_table_name(shared_as, f"what follows # in reader_profile of {table.table}")


def _tables(writes: object, databricks_conn_id: str) -> tuple[DeltaTable, ...]:
    if not isinstance(writes, list | tuple):
        raise InvalidArgument(f"writes of TriggeredRuns is {writes!r}; give a list of tables")
    named = [DeltaTable(one, databricks_conn_id) if isinstance(one, str) else one for one in writes]
    if wrong := [one for one in named if not isinstance(one, DeltaTable)]:
        raise InvalidArgument(f"writes of TriggeredRuns has {wrong[0]!r}; give names of tables, or DeltaTable(...)")
    return tuple(named)


def _names(values: Iterable[str], field: str) -> frozenset[str]:
    if isinstance(values, str):
        raise InvalidArgument(f"{field} is the string {values!r}; give a set of names, as in {{{values!r}}}")
    try:
        names = frozenset(values)
    except TypeError as error:
        raise InvalidArgument(f"{field} is {values!r}; give a set of names") from error
    if not names:
        raise InvalidArgument(f"{field} is empty; nothing would ever match")
    return names


def _refuse_unknown(given: frozenset[str], known: frozenset[str], field: str) -> None:
    unknown = sorted(map(str, given - known))
    if unknown:
        raise InvalidArgument(f"{field} has {', '.join(unknown)}; known are {', '.join(sorted(known))}")


def _alias_of(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _check_alias(alias: object, owner: str) -> None:
    if not isinstance(alias, str) or not _ALIAS.fullmatch(alias):
        raise InvalidArgument(f"alias {alias!r} of {owner} is not a plain name; give alias= letters, digits and _")
    if alias.startswith("bridge"):
        raise InvalidArgument(
            f"alias {alias!r} of {owner} begins with bridge, which our own parameters do; give another alias="
        )
