"""One bound for every text that others wrote and we keep: error messages, reasons, notes.

A record, an XCom and a trigger's event have to stay small, and a database takes neither NUL nor half a character.
"""

from __future__ import annotations

import json
import re

LONGEST_TEXT = 600
"""Bytes that a kept text has at most, counted as JSON writes it (`json.dumps`): a character outside ASCII has 6 or 12."""

LONGEST_PART = 200
"""The same for what stands in the middle of such a text, so that what follows it is still there."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_CUT = "..."


def whole_characters(text: str) -> str:
    """`text` as every encoding and database takes it: half characters become `?`, NUL a space.

    Databricks cuts long error texts by UTF-16 units, so that one may end in half of an emoji; Airflow's messages between
    processes are UTF-8, and a trigger's event that cannot be written ends the whole triggerer.
    """
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def bounded(text: object, most: int = LONGEST_TEXT) -> str:
    """`text` on one line, cut where it has more than `most` bytes in JSON. Half characters become `?`."""
    whole = str(text)
    start = whole[: most + 1].encode("utf-8", "replace").decode()
    start = _CONTROL.sub(" ", start)
    if len(whole) <= most and _bytes(start) <= most:
        return start
    kept, left = [], most - len(_CUT)
    for character in start:
        left -= _bytes(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + _CUT


def _bytes(text: str) -> int:
    return len(json.dumps(text)) - 2
