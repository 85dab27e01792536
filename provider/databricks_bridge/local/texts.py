"""Text that can be written as UTF-8: half of a surrogate pair, which Python lets stand alone, can not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def whole_text(text: str) -> str:
    """The text with each half of a surrogate pair that stands alone as U+FFFD, and with each two halves as one character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_texts(value: Any) -> Any:
    """The same for all text within a value of lists and mappings; whatever else is in it stays."""
    if isinstance(value, str):
        # Text of a class of its own, such as a StrEnum, stays what it is.
        return whole_text(value) if type(value) is str else value
    if isinstance(value, Mapping):
        return {whole_texts(key): whole_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(whole_texts(item) for item in value)
    return value
