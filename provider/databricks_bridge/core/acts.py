"""The vocabulary between the protocol and its drivers: acts to do, observations to report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from databricks_bridge.core import pending
from databricks_bridge.core.errors import BridgeError
from databricks_bridge.core.outcomes import Outcome
from databricks_bridge.core.positions import Range
from databricks_bridge.core.record import Claim, Record


@dataclass(frozen=True)
class ReadRecord:
    """Read the record; answered by RecordRead."""


@dataclass(frozen=True)
class WriteRecord:
    """Write the record; answered by RecordWritten, or RecordLost when another writer came first."""

    record: Record


@dataclass(frozen=True)
class Look:
    """Look at every source from these watermarks on; answered by Looked."""

    record: Record | None


@dataclass(frozen=True)
class Survey:
    """Search the target job's runs for any that names this subscription, around external work the second copy of its record;
    answered by Surveyed."""


@dataclass(frozen=True)
class AskDagRun:
    """Ask Airflow whether the DAG run that has this claim is still under way; answered by DagRunSeen."""

    claim: Claim


@dataclass(frozen=True)
class Prove:
    """Ask the postcondition whether this run really processed the claim; answered by Proved.

    The run itself may be `gone`; then a postcondition that cannot tell is an answer too.
    """

    claim: Claim
    run_id: int
    gone: bool = False


@dataclass(frozen=True)
class StartRun:
    """run-now with the claim's parameters under its token; answered by RunStarted or TokenSpent."""

    claim: Claim


@dataclass(frozen=True)
class FindRun:
    """Search the job's runs since the claim for its token, or for this run; answered by RunFound."""

    claim: Claim
    run_id: int | None = None


@dataclass(frozen=True)
class GetRun:
    """Read the run once; answered by RunSeen or RunGone."""

    run_id: int


@dataclass(frozen=True)
class AwaitRun:
    """Wait until the run is over; answered by RunSeen or RunGone."""

    run_id: int


@dataclass(frozen=True)
class Pause:
    """Wait until then; answered by Woke. `looking` is the record that nothing was pending for, None for other pauses."""

    until: datetime
    reason: str
    looking: Record | None = None


@dataclass(frozen=True)
class Finish:
    """Done. `ranges` were committed by this process, empty when there was nothing new.

    `claim` is the open claim that other tasks are to work on, where the consumer is no job.
    """

    ranges: tuple[Range, ...]
    run_id: int | None
    reason: str
    claim: Claim | None = None


@dataclass(frozen=True)
class Fail:
    """Done, with an error for the author."""

    error: BridgeError


Act: TypeAlias = (
    ReadRecord
    | WriteRecord
    | Look
    | Survey
    | AskDagRun
    | Prove
    | StartRun
    | FindRun
    | GetRun
    | AwaitRun
    | Pause
    | Finish
    | Fail
)


@dataclass(frozen=True)
class RecordRead:
    """The record, None where there is none."""

    record: Record | None


@dataclass(frozen=True)
class RecordWritten:
    """The write is durable."""


@dataclass(frozen=True)
class RecordLost:
    """Another writer came first; nothing was written."""


@dataclass(frozen=True)
class Looked:
    """What each source, by alias, looks like now."""

    findings: Mapping[str, pending.Finding]


@dataclass(frozen=True)
class Surveyed:
    """The newest run that names the subscription, None where none does; around external work, where the second copy of the
    record is, empty where there is none."""

    run_id: int | None
    copy: str = ""


@dataclass(frozen=True)
class DagRunSeen:
    """Whether that DAG run is still under way: queued or running."""

    active: bool


@dataclass(frozen=True)
class Proved:
    """What the postcondition said; `why` is for the author where it said no. It is not `certain` where it could not tell, or
    told of some of the ranges only: then a run that is gone is not proved.
    """

    holds: bool
    why: str = ""
    certain: bool = True


@dataclass(frozen=True)
class RunStarted:
    """run-now answered with this run: a new one, or the one that the token started before."""

    run_id: int


@dataclass(frozen=True)
class RunFound:
    """The run that carries the token, None where no run does."""

    run_id: int | None


@dataclass(frozen=True)
class RunSeen:
    """A run as it is. `error` has the class and message of each failed task, where it failed; `reader_behind` says that all
    of them failed because their shared tables do not have `end` yet. `denied` is what a postcondition has against it.
    """

    run_id: int
    outcome: Outcome
    parameters: Mapping[str, str]
    error: str = ""
    reader_behind: bool = False
    denied: str = ""


@dataclass(frozen=True)
class TokenSpent:
    """run-now refuses the token, since the run that it started was deleted. `run_id` where the refusal names it."""

    why: str
    run_id: int | None = None


@dataclass(frozen=True)
class RunGone:
    """The workspace does not show the run: it is not known yet, or no longer (60 days, or deleted)."""

    run_id: int


@dataclass(frozen=True)
class Woke:
    """The pause is over."""


Observation: TypeAlias = (
    RecordRead
    | RecordWritten
    | RecordLost
    | Looked
    | Surveyed
    | DagRunSeen
    | Proved
    | RunStarted
    | RunFound
    | RunSeen
    | RunGone
    | TokenSpent
    | Woke
)
