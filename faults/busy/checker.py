"""Whether what was due has fired once: each change against the runs of its job, each time of a schedule likewise. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

CLOCK_MS = 5
"""How far the time of a file may be from the clock."""


@dataclass(frozen=True)
class Change:
    """Something that a trigger waits for, at a time in epoch milliseconds. `value` is what its run must name, if it names it."""

    at: int
    value: str | None = None


@dataclass(frozen=True)
class Fired:
    """A run that a trigger started. `value` is the parameter that the trigger filled in: a version, or the time it was due."""

    run_id: int
    start: int
    value: str = ""


@dataclass
class Account:
    """How the changes and the runs of some jobs agree. `lines` say each disagreement."""

    due: int = 0
    fired: int = 0
    missed: int = 0
    doubled: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.missed or self.doubled)

    def changes(self, job: str, changes: Sequence[Change], runs: Sequence[Fired]) -> None:
        """Each change is followed by one run before the next change comes, which names it."""
        ordered = sorted(runs, key=lambda run: (run.start, run.run_id))
        self.due, self.fired = self.due + len(changes), self.fired + len(runs)
        starts = [change.at - CLOCK_MS for change in changes]
        early = [run for run in ordered if not starts or run.start < starts[0]]
        self._note("doubled", len(early), f"{job}: {len(early)} runs before anything came: {early[:3]}")
        for place, change in enumerate(changes):
            end = starts[place + 1] if place + 1 < len(starts) else float("inf")
            mine = [run for run in ordered if starts[place] <= run.start < end]
            self._note("missed", not mine, f"{job}: no run for {change}")
            self._note("doubled", max(0, len(mine) - 1), f"{job}: {change} has the runs {mine}")
            wrong = [run for run in mine if change.value not in (None, run.value)]
            self._note("missed", len(wrong), f"{job}: {change} is not what {wrong} name")

    def schedule(
        self,
        job: str,
        period_ms: int,
        since: int,
        until: int,
        runs: Sequence[Fired],
        downs: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Each due time between `since` and `until` has one run; times that passed in one of `downs` are one run, of the last."""
        slots = range(-(-since // period_ms) * period_ms, until + 1, period_ms)
        named = Counter(int(run.value or 0) for run in runs)
        self.due, self.fired = self.due + len(slots), self.fired + len(runs)
        for slot, count in named.items():
            known = slot % period_ms == 0 and slot >= since
            self._note("doubled", count - known, f"{job}: the time {slot} has {count} runs")
        answered = sorted(named)
        for slot in slots:
            later = next((one for one in answered if one >= slot), until)
            excused = any(began <= later and ended >= slot for began, ended in downs)
            missing = later != slot and not excused
            self._note("missed", missing, f"{job}: no run for the time {slot}, and nothing was down")

    def _note(self, what: str, count: int, line: str) -> None:
        if count:
            setattr(self, what, getattr(self, what) + count)
            self.lines.append(f"{what}: {line}")
