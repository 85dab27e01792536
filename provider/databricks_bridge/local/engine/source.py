"""The cells of a notebook: Databricks' source format, or a plain Python file as one cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from databricks_bridge.local.engine.errors import NotServedHere

HEADER = "# Databricks notebook source"
_SEPARATOR = re.compile(r"^# COMMAND -{10}\s*$")
_MAGIC = re.compile(r"^# MAGIC ?")
_TITLE = re.compile(r"^# DBTITLE ")
_PARAMETER = re.compile(r":([A-Za-z_]\w*)")
_SQL_TOKEN = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|;", re.DOTALL)


class CellKind(Enum):
    PYTHON = "python"
    SQL = "sql"
    MARKDOWN = "md"


@dataclass(frozen=True)
class Cell:
    """One cell. `first_line` is the line of the file (from 1) at which `text` begins."""

    kind: CellKind
    text: str
    first_line: int


def parse_notebook(text: str) -> tuple[Cell, ...]:
    """The cells of a notebook in order, without empty ones.

    Raises NotServedHere for a magic other than %md, %sql and %python.
    """
    lines = text.splitlines()
    if not lines or lines[0].lstrip("\ufeff").rstrip() != HEADER:
        return (Cell(CellKind.PYTHON, text, 1),)
    return tuple(_cell(body, first) for first, body in _blocks(lines) if any(line.strip() for line in body))


def _blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    start = 1
    for number, line in enumerate(lines):
        if _SEPARATOR.match(line):
            yield start + 1, lines[start:number]
            start = number + 1
    yield start + 1, lines[start:]


def _cell(lines: list[str], first: int) -> Cell:
    while not lines[0].strip() or _TITLE.match(lines[0]):
        lines, first = lines[1:], first + 1
        if not lines:
            return Cell(CellKind.MARKDOWN, "", first)
    if not any(_MAGIC.match(line) for line in lines):
        return Cell(CellKind.PYTHON, "\n".join(lines), first)
    bare = [_MAGIC.sub("", line) for line in lines]
    magic, _, rest = bare[0].strip().partition(" ")
    body = "\n".join([rest, *bare[1:]])
    match magic:
        case "%md" | "%md-sandbox":
            return Cell(CellKind.MARKDOWN, body, first)
        case "%sql":
            return Cell(CellKind.SQL, body, first)
        case "%python":
            return Cell(CellKind.PYTHON, body, first)
        case _:
            raise NotServedHere(
                f"line {first}: the local workspace does not serve {magic or bare[0]}. It runs Python cells, %sql and "
                "%md; install packages into the environment of the local workspace instead of %pip."
            )


def sql_statements(text: str) -> tuple[str, ...]:
    """The statements of a %sql cell, split at semicolons outside quotes and comments."""
    cuts = [token.start() for token in _SQL_TOKEN.finditer(text) if token.group() == ";"]
    pieces = [text[begin + 1 : end] for begin, end in zip([-1, *cuts], [*cuts, len(text)], strict=True)]
    return tuple(piece.strip() for piece in pieces if _has_code(piece))


def sql_parameters(statement: str) -> frozenset[str]:
    """The names of the `:name` markers of a statement, outside quotes and comments."""
    code = _SQL_TOKEN.sub(" ", statement).replace("::", " ")
    return frozenset(_PARAMETER.findall(code))


def _has_code(piece: str) -> bool:
    return bool(re.sub(r"--[^\n]*|/\*.*?\*/", "", piece, flags=re.DOTALL).strip())
