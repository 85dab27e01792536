"""Parts of pages: tables, facts, states, times, buttons. What they are given as cells or inside is HTML, all else is text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from databricks_bridge.local.pages.document import text
from databricks_bridge.local.runs.model import Outcome, Phase

TOKEN_CHARACTERS = 12
"""How much of a `bridge_token` is shown: enough to tell two of them apart."""
_GOOD = frozenset({Outcome.SUCCESS, Outcome.SUCCESS_WITH_FAILURES})
NUMBER = "number"


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), *, label: str, numbers: Iterable[str] = ()) -> str:
    """A table that scrolls in its own box. Cells are HTML. Without a head the first cell of each row is its name.

    `label` names it for those who do not see it; columns in `numbers` are set as numbers.
    """
    right = [f' class="{NUMBER}"' if name in set(numbers) else "" for name in head]
    lines = []
    for row in rows:
        if head:
            cells = [f"<td{kind}>{cell}</td>" for kind, cell in zip(right, row, strict=True)]
        else:
            cells = [f'<th scope="row">{row[0]}</th>', *(f"<td>{cell}</td>" for cell in row[1:])]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    names = [f'<th scope="col"{kind}>{text(name)}</th>' for kind, name in zip(right, head, strict=True)]
    top = f"<thead><tr>{''.join(names)}</tr></thead>" if names else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{text(label)}"><table>{top}'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def without_empty(rows: list[list[str]], head: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The same without the columns in which no row has anything."""
    kept = [index for index in range(len(head)) if any(row[index] for row in rows)]
    return [[row[index] for index in kept] for row in rows], [head[index] for index in kept]


def facts(pairs: Iterable[tuple[str, str]], *, label: str) -> str:
    """Names and values; the values are HTML, and what has none is left out."""
    return table([[text(name), value] for name, value in pairs if value], label=label)


def state(outcome: Outcome | None, phase: Phase | None) -> str:
    """The outcome of what has ended, else the phase it is in."""
    if outcome is None:
        return mark(phase or Phase.RUNNING, "busy")
    return mark(outcome, "good" if outcome in _GOOD else "bad")


def mark(word: object, kind: str = "") -> str:
    """A word that stands out; `kind` is good, bad, busy or nothing."""
    return f'<span class="state {kind}">{text(word)}</span>'


def time(ms: int) -> str:
    """Epoch milliseconds as a time of day; nothing for 0."""
    if not ms:
        return ""
    return f'<span class="id">{text(datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))}</span>'


def took(start: int, end: int) -> str:
    """How long it was between two times in epoch milliseconds; nothing while it goes on."""
    return duration((end - start) / 1000) if start and end else ""


def duration(seconds: float) -> str:
    """``duration(3725) == "1 h 2 min"``, ``duration(0.25) == "0.2 s"``."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for unit, size, below, part in (("min", 60, "s", 1), ("h", 3600, "min", 60), ("d", 86400, "h", 3600)):
        if whole < size * 100 or unit == "d":
            count, rest = divmod(whole, size)
            return f"{count} {unit}" + (f" {rest // part} {below}" if rest // part else "")
    raise AssertionError("days have no end")


def size(count: int) -> str:
    """Bytes: ``size(1536) == "1.5 KiB"``."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1024 or unit == "TiB":
            return f"{amount:.1f} {unit}"
    raise AssertionError("the last unit has no end")


def address(*parts: object, **query: object) -> str:
    """``address("local", "jobs", 7, page=2) == "/local/jobs/7?page=2"``. What is None is left out of the query."""
    asked = urlencode({name: str(value) for name, value in query.items() if value is not None})
    return "/" + "/".join(quote(str(part)) for part in parts) + (f"?{asked}" if asked else "")


def link(href: str, label: object) -> str:
    return f'<a href="{text(href)}">{text(label)}</a>'


def code(value: object) -> str:
    return f'<span class="code">{text(value)}</span>'


def soft(value: object) -> str:
    return f'<p class="soft">{text(value)}</p>'


def said(message: object, kind: str = "") -> str:
    """Something that has to be read: what was done, or why it was not."""
    return f'<div class="said {kind}" role="status"><p>{text(message)}</p></div>'


def button(form_value: str, action: str, label: str, *, quiet: bool = False, **fields: object) -> str:
    """A form of one button, which carries `fields`."""
    kind = ' class="quiet"' if quiet else ""
    return f'<form method="post" action="{text(action)}">{hidden(form_value, **fields)}<button{kind}>{text(label)}</button></form>'


def hidden(form_value: str, **fields: object) -> str:
    """The fields of a form that nobody sees, with the value without which it is refused."""
    given: Mapping[str, object] = {"form_value": form_value, **fields}
    return "".join(f'<input type="hidden" name="{text(name)}" value="{text(one)}">' for name, one in given.items())


def shown_value(name: str, value: object) -> str:
    """A parameter's value as it may be shown: a `bridge_token` is cut short."""
    whole = str(value)
    if name == "bridge_token" and len(whole) > TOKEN_CHARACTERS:
        return f"{whole[:TOKEN_CHARACTERS]}…"
    return whole
