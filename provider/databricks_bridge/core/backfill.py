"""Explicit ranges, as a backfill is given them: they move no watermark and touch no claim.

There is no record to go by. The run is found again by its token, which comes from what was asked for and from the task
that asked, whichever try of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from databricks_bridge.core import parameters
from databricks_bridge.core.acts import RunSeen
from databricks_bridge.core.bounds import Bounds
from databricks_bridge.core.errors import BadAnswer, HistoryGap, InvalidArgument
from databricks_bridge.core.outcomes import Ending
from databricks_bridge.core.parameter_names import RANGES, TOKEN, as_of_name
from databricks_bridge.core.pending import Finding, TableFinding
from databricks_bridge.core.positions import Range, TablePosition
from databricks_bridge.core.record import Claim, Record, Target
from databricks_bridge.core.sources import DeltaTable, Source

EPOCH = "backfill"
"""`bridge_epoch` of these runs. No record has this epoch: nobody takes such a run for one of a claim."""


@dataclass(frozen=True)
class Asking:
    """The Airflow task that asks, the same for all its tries; with `rerun`, for those since a person cleared it: `cleared` is
    the number of the first of them, 0 before that.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    cleared: int = 0


@dataclass(frozen=True)
class Reading:
    """Which state a backfill's run reads: of each table the version `as_of`, by alias, whatever versions its range says were
    touched. `whole` are the tables of which the range leaves nothing out.
    """

    as_of: Mapping[str, int]
    whole: frozenset[str]


@dataclass(frozen=True)
class Backfill:
    """What is to be processed once: these versions, from exclusive, to inclusive, of each source by its alias."""

    subscription: str
    target: Target
    bounds: Bounds
    asking: Asking

    def token(self, generation: int) -> str:
        """The idempotency token: sha256 hex (64 characters) of canonical JSON."""
        facts = {
            "kind": EPOCH,
            "subscription": self.subscription,
            "host": self.target.host,
            "workspace_id": self.target.workspace_id,
            "job_id": self.target.job_id,
            "ranges": {alias: list(bounds) for alias, bounds in self.bounds.items()},
            "airflow": {name: value for name, value in vars(self.asking).items() if name != "cleared" or value},
            "generation": generation,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def whose(self, given: Mapping[str, str]) -> Backfill | None:
        """This backfill, or the same before a clear, whichever started the run with these job parameters; None for neither."""
        cleared = range(self.asking.cleared, -1, -1)
        ones = (replace(self, asking=replace(self.asking, cleared=number)) for number in cleared)
        return next((one for one in ones if one.generation_of(given) is not None), None)

    def ranges(self, sources: Iterable[Source]) -> tuple[Range, ...]:
        """The ranges by their numbers alone."""
        return tuple(
            Range(one.alias, one.reader_name, TablePosition(from_), TablePosition(to))
            for one in sources
            if isinstance(one, DeltaTable)
            for from_, to in (self.bounds[one.alias],)
        )

    def claim(
        self,
        generation: int,
        ranges: tuple[Range, ...],
        own: Mapping[str, str],
        now: datetime,
        reading: Reading | None = None,
    ) -> Claim:
        """What a run of this generation is started with. It is never written to a ledger.

        :param reading: which state it is to read; None for a claim that starts no run
        """
        token, reading = self.token(generation), reading or Reading({}, frozenset())
        given = parameters.render(
            self.subscription, EPOCH, generation, token, ranges, own, as_of=reading.as_of, rebuild=reading.whole
        )
        return Claim(ranges, token, generation, self.target, given, now)

    def generation_of(self, given: Mapping[str, str]) -> int | None:
        """Which generation of this backfill a run with these job parameters is; None for any other run."""
        number = given.get("bridge_generation", "")
        if given.get("bridge_epoch") != EPOCH or not number.isdecimal():
            return None
        return int(number) if given.get(TOKEN) == self.token(int(number)) else None

    def ran(self, seen: RunSeen) -> Claim:
        """The claim as the run itself shows it. Raises BadAnswer for a run that is not of this backfill."""
        generation = self.generation_of(seen.parameters)
        if generation is None:
            raise BadAnswer(
                f"run {seen.run_id} of {self.target} does not carry the token of this backfill; the job must declare "
                f"the job parameters {TOKEN}, bridge_epoch, bridge_generation and {RANGES}"
            )
        ranges = parameters.ranges_of(seen.parameters, {})
        epoch = datetime.fromtimestamp(0).astimezone()
        return Claim(ranges, self.token(generation), generation, self.target, tuple(seen.parameters.items()), epoch)


def first_try_since_clear(max_tries: int, retries: int) -> int:
    """The number of the first try since a person cleared the task; 0 where nobody did.

    Airflow 3 gives a cleared task as many tries more as it has retries: `max_tries = try_number + retries`
    (`clear_task_instances`). A retry leaves it alone.
    """
    return max_tries - retries + 1 if max_tries > retries else 0


def standing(runs: Mapping[int, RunSeen], generation: int = 0) -> tuple[int, RunSeen | None]:
    """Where earlier tries left it, from their runs by generation: the one to go on with from `generation` on, and its run.

    A run that failed, or never ran, is over: the one after it counts. A repaired one is no failure any more.
    """
    while generation in runs and runs[generation].outcome.ending in (Ending.FAILED, Ending.NOTHING_RAN):
        generation += 1
    return generation, runs.get(generation)


def ranges_of(bounds: Bounds, sources: Iterable[Source], findings: Mapping[str, Finding]) -> tuple[Range, ...]:
    """The ranges, with the identity that each table has now. Raises InvalidArgument for versions that are not there."""
    return tuple(_range(source, bounds[source.alias], findings[source.alias]) for source in sources)


def reading_of(
    ranges: Iterable[Range], findings: Mapping[str, Finding], record: Record | None, before: Mapping[str, str]
) -> Reading:
    """The newest state there is, and never an older one than the subscription has processed or claimed.

    What a backfill writes lies beside the results of newer versions: computed from the state as of its own `to`, it would
    put them back. Raises HistoryGap for a table that is behind what was processed.

    :param before: parameters of the last run of this backfill, if that never ran or its reader did not have the state yet:
        a reader that lags behind a busy table would never catch up with the newest version of each try
    """
    as_of: dict[str, int] = {}
    whole = set()
    for one in ranges:
        finding = findings[one.alias]
        if not (isinstance(finding, TableFinding) and finding.position and isinstance(one.to, TablePosition)):
            continue
        newest, reader = finding.position.version, finding.reader_version
        least = max([one.to.version, *_processed(record, one.alias, finding.position)])
        if newest < least:
            raise HistoryGap(
                f"{one.name} is at version {newest}, but the subscription has processed it up to {least}: its log was cut or "
                "replaced, and a backfill would write older state over newer results. Settle that first: clear the task that "
                "runs without range=, which says how"
            )
        there = newest if reader is None else min(newest, reader)
        earlier = before.get(as_of_name(one.alias), "")
        as_of[one.alias] = max(int(earlier) if earlier.isdecimal() else there, least)
        if finding.data_version is None or one.to.version >= finding.data_version:
            whole.add(one.alias)
    return Reading(as_of, frozenset(whole))


def _processed(record: Record | None, alias: str, now: TablePosition) -> Iterator[int]:
    """How far a record's watermark and open claim have come in this table; nothing where it was another table then."""
    if record is None:
        return
    claimed = record.claim.ranges if record.claim else ()
    for one in (record.watermarks.get(alias), *(range_.to for range_ in claimed if range_.alias == alias)):
        if isinstance(one, TablePosition):
            ids = ((one.table_id, now.table_id), (one.metadata_id, now.metadata_id))
            if not any(then and found and then != found for then, found in ids):
                yield one.at


def marks_of(bounds: Bounds) -> dict[str, TablePosition]:
    """Where a look begins."""
    return {alias: TablePosition(from_) for alias, (from_, _) in bounds.items()}


def _range(source: Source, bounds: tuple[int, int], finding: Finding) -> Range:
    if not isinstance(source, DeltaTable) or not isinstance(finding, TableFinding):
        raise InvalidArgument(f"{source.alias} is no table, and range= is for tables")
    now = finding.position
    if not isinstance(now, TablePosition) or now.version < bounds[1]:
        newest = now.version if isinstance(now, TablePosition) else "no version at all"
        raise InvalidArgument(f"range of {source.alias} ends at {bounds[1]}, but {source.table} has {newest}")
    from_, to = (TablePosition(version, now.table_id, now.metadata_id) for version in bounds)
    return Range(source.alias, source.reader_name, from_, to)
