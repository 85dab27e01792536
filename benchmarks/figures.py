"""What a benchmark ends with: figures, each with its goal, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured number. `most` and `least` are its goals, both inclusive; a ratio, a count or a size in MB."""

    what: str
    value: float
    most: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        over = self.most is not None and self.value > self.most
        return not over and not (self.least is not None and self.value < self.least)

    def __str__(self) -> str:
        return f"{number(self.value)} {self.what}"

    @property
    def goal(self) -> str:
        """The goal as a person would say it."""
        return f"at most {number(self.most)}" if self.most is not None else f"at least {number(self.least or 0)}"


def line(name: str, figures: Sequence[Figure]) -> str:
    """`NAME: FIGURE (goal GOAL)`, with several figures in the order of their goals."""
    return f"{name}: {', '.join(map(str, figures))} (goal {', '.join(figure.goal for figure in figures)})"


def number(value: float) -> str:
    """Three digits that count, and no exponent."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
