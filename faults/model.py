"""The fault model: which fault may strike where, and who must survive it.

What runs is real: the step function, the driver, the workspace client over HTTP, both kinds of keep, the local
workspace. What is ours: when a process acts, when a run ends and how, what the time is, and what goes wrong.

* The way to the workspace (a proxy between client and server): 429 with Retry-After, 500, 503, a connection reset
  before the request arrived, an answer cut short, an answer lost after the act was done, a token refused once. Once, a
  few times, or until the client gives up. The client or the next process must survive it.
* The keep: a call that failed, a write whose answer was lost. The next process must survive it. The upsert keep checks
  the revision and then writes, and anything may happen between the two.
* Processes: death before, after and in the midst of every act; a second one of the same subscription, woken by a signal
  that came twice, late or out of order. Whoever comes next must survive it.
* Clocks: a worker's clock jumps by up to 26 hours, either way, while the workspace keeps the tokens that it knows. Or 25
  hours pass and the workspace forgets all tokens older than 24; then clocks are wrong by at most 5 minutes, for a claim's
  run is searched for from 10 minutes before the claim, and nobody stands between a decision and its run-now meanwhile.
* Runs: fail, are skipped, find the reader behind, succeed without having done their work (where there is a
  postcondition), are repaired by a person. A person repairs the run of the open claim, while no process has seen it fail:
  a repair that begins when the next generation is on its way cannot be prevented.
  It is not shown by the workspace, within less than five minutes of a schedule: by `runs/get`, or by one listing. A person
  deletes a run that failed before its consumer could note it: then its token is refused.
* Airflow: a try is lost after its commit, before a word of it. The next try of that task must end with that commit (with
  compare-and-set: without, the racer's record may not have it).
* The world: data commits, OPTIMIZE commits, runs of the same job that a person or a trigger started.

In the first phase of a schedule all of this happens, and nothing may be wrong. In the second nothing more goes wrong, and
everything must finish: the watermarks reach the newest version with data.
"""

from __future__ import annotations

from dataclasses import dataclass

STEPS = ("read", "survey", "look", "write", "start", "find", "get", "await", "pause", "prove")
IDLE = "(none)"
"""The column for what happens while no process lives."""
LEAST = 20
"""How often a cell that is demanded must be met."""

ON_THE_WAY = ("429", "500", "503", "reset", "cut short", "answer lost", "token refused")
HTTP_STEPS = ("survey", "look", "start", "find", "get", "await")
DEATHS = ("death before", "death after", "death amid")
CLOCKS = ("clock forward", "clock back")
WAKES = ("woken twice", "woken out of order")
OTHER_ACTS = "other acts first"
WORLD = ("data commit", "OPTIMIZE commit", "foreign run")
ENDS = ("run fails", "reader behind", "run hollow")
REPAIRED, SKIPPED = "run repaired", "run skipped"
NOT_SHOWN, TRY_LOST, RUN_DELETED = "run not shown", "try lost", "run deleted"
KEEP_FAILS, KEEP_ANSWER_LOST = "keep fails", "keep answer lost"

FAULTS = (
    *ON_THE_WAY,
    KEEP_FAILS,
    KEEP_ANSWER_LOST,
    *DEATHS,
    *CLOCKS,
    *WAKES,
    OTHER_ACTS,
    *WORLD,
    *ENDS,
    SKIPPED,
    REPAIRED,
    NOT_SHOWN,
    TRY_LOST,
    RUN_DELETED,
)
Cell = tuple[str, str]


@dataclass(frozen=True)
class Rule:
    """The steps at which a fault must be met often, and why the other cells are not demanded.

    `elsewhere` is "impossible", or "counted": possible where two processes live, but not at will.
    """

    demanded: tuple[str, ...]
    elsewhere: str
    why: str


_FIRST_LOOK = "a run of the subscription ends there only where another process started it in between"
_RULES = {
    **dict.fromkeys(ON_THE_WAY, Rule(HTTP_STEPS, "impossible", "the other steps do not call the workspace")),
    KEEP_FAILS: Rule(("read", "write"), "impossible", "the other steps do not call the keep"),
    KEEP_ANSWER_LOST: Rule(("write",), "impossible", "only a write does something whose answer can be lost"),
    "death amid": Rule(
        (*HTTP_STEPS, "write", "pause"), "impossible", "these acts are one call: to die in it is before or after it"
    ),
    **dict.fromkeys(ENDS, Rule(("read", "write", "get", "await", IDLE), "counted", _FIRST_LOOK)),
    "run hollow": Rule(("read", "await", IDLE), "counted", "only schedules with a postcondition have hollow runs"),
    SKIPPED: Rule(("start",), "impossible", "a run is skipped by the run-now that would start it"),
    REPAIRED: Rule(
        ("read", "get", IDLE), "counted", "elsewhere a process has seen the run fail, or another one has begun it"
    ),
    NOT_SHOWN: Rule(("find", "get", "await"), "impossible", "the other steps ask for no run"),
    TRY_LOST: Rule(("write",), "impossible", "a try is lost after its commit, which is a write"),
    RUN_DELETED: Rule((IDLE,), "impossible", "whoever lives would have noted the run"),
    **dict.fromkeys(WORLD, Rule((*STEPS, IDLE), "impossible", "")),
}
_EVERYWHERE = Rule(STEPS, "impossible", "it takes a process that lives")


def rule_of(fault: str) -> Rule:
    return _RULES.get(fault, _EVERYWHERE)


def demanded_cells() -> list[Cell]:
    """Every cell that must be met `LEAST` times, in a fixed order."""
    return [(fault, step) for fault in FAULTS for step in rule_of(fault).demanded]
