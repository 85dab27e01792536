"""A stamp says that a step was finished for exactly these inputs; anything else means: do the step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest(words: Iterable[str], files: Iterable[Path]) -> str:
    """One hash over the words and the contents of the files, in the order given."""
    total = hashlib.sha256()
    for word in words:
        total.update(b"w" + word.encode() + b"\0")
    for file in files:
        total.update(b"f" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def holds(stamp: Path, value: str) -> bool:
    try:
        return stamp.read_text() == value
    except FileNotFoundError:
        return False


def put(stamp: Path, value: str) -> None:
    """Written last and in one move, so that a step that was cut short has no stamp."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    fresh = stamp.with_name(stamp.name + ".new")
    fresh.write_text(value)
    fresh.replace(stamp)
