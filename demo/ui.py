"""Progress for people: a spinner on a terminal, plain lines elsewhere, and never a silent minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

PLAIN_EVERY = 5.0  # seconds between two changed lines of one leg, when the output is no terminal
PLAIN_SILENCE = 20.0  # seconds after which a line is repeated although nothing changed


class Progress:
    """Legs of the story, one after another. `now` may be called as often as one likes."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console or _console()
        self.legs: list[tuple[str, float]] = []
        self._clock = clock
        self._began = clock()
        self._leg: tuple[str, float] | None = None
        self._status: Status | None = None
        self._shown: tuple[str, float] = ("", float("-inf"))

    @contextmanager
    def leg(self, name: str) -> Iterator[None]:
        """A step of the story: announced, shown while it goes on, and timed."""
        self._leg = (name, self._clock())
        self._shown = ("", float("-inf"))
        if self.console.is_terminal:
            self._status = self.console.status(escape(name), spinner="dots")
            self._status.start()
        else:
            self._line(f"... {name}")
        try:
            yield
        except BaseException:
            self._end()
            self._line(f"  x {name}")
            raise
        seconds = self._clock() - self._leg[1]
        self._end()
        self.legs.append((name, seconds))
        self._line(f" ok {name}  ({seconds:.1f} s)")

    def now(self, detail: str) -> None:
        """What is going on at this moment."""
        if self._leg is None:
            return
        at = self._clock()
        if self._status is not None:
            self._status.update(f"{escape(self._leg[0])}  [dim]{at - self._leg[1]:.0f} s  {escape(detail)}[/dim]")
            return
        shown, when = self._shown
        if (detail != shown and at - when >= PLAIN_EVERY) or at - when >= PLAIN_SILENCE:
            self._shown = (detail, at)
            self._line(f"      {detail}")

    def say(self, text: str) -> None:
        """A line that stays."""
        self._line(f"    {text}")

    def times(self) -> Table:
        """How long each leg took."""
        table = Table(title="How long each leg took", title_justify="left", show_footer=True)
        table.add_column("leg", footer="all")
        table.add_column("seconds", justify="right", footer=f"{self._clock() - self._began:.1f}")
        for name, seconds in self.legs:
            table.add_row(escape(name), f"{seconds:.1f}")
        return table

    def _line(self, text: str) -> None:
        elapsed = self._clock() - self._began
        self.console.print(f"[dim]{elapsed:6.1f}[/dim] {escape(text)}", highlight=False, soft_wrap=True)

    def _end(self) -> None:
        self._leg = None
        if self._status is not None:
            self._status.stop()
            self._status = None


def _console() -> Console:
    console = Console()
    # A pipe has no width of its own; 80 columns would cut the proof's table.
    return console if console.is_terminal else Console(width=140)
