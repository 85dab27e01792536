"""A SQL statement as tokens, so that what is looked for is not found in literals and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

_QUOTED = frozenset(["IDENTIFIER"])
_WORD = re.compile(r"\S+")
_STRINGS = frozenset(["STRING", "RAW_STRING", "NATIONAL_STRING", "HEREDOC_STRING", "UNICODE_STRING"])


@dataclass(frozen=True)
class Token:
    """One token. `text` is without quotes; `begin` and `end` say where it is in the statement, quotes included."""

    text: str
    begin: int
    end: int
    quoted: bool = False
    string: bool = False

    def is_word(self, *words: str) -> bool:
        return not self.quoted and not self.string and self.text.upper() in words

    @property
    def is_name(self) -> bool:
        return not self.string and (self.quoted or self.text.replace("_", "a").isalnum())


@dataclass(frozen=True)
class Statement:
    """A statement with its tokens: none where it cannot be read, which Spark then says better."""

    text: str
    tokens: tuple[Token, ...]

    @classmethod
    def of(cls, text: str) -> Statement:
        from sqlglot.errors import TokenError

        try:
            found = _tokenizer()(dialect="databricks").tokenize(text)
        except TokenError:
            return cls(text, ())
        tokens: list[Token] = []
        for one in found:
            kind, begin, end = one.token_type.name, one.start, one.end + 1
            if kind in _QUOTED or kind in _STRINGS:
                tokens.append(Token(one.text, begin, end, kind in _QUOTED, kind in _STRINGS))
            elif kind != "SEMICOLON":  # ORDER BY and its like are words like any other
                tokens += [
                    Token(part[0], begin + part.start(), begin + part.end()) for part in _WORD.finditer(one.text)
                ]
        return cls(text, tuple(tokens))

    def starts(self, *words: str) -> bool:
        """Whether it begins with these words; `A|B` is one of them, `A?` one that may be left out."""
        return self.after(*words) is not None

    def after(self, *words: str) -> int | None:
        """The number of the token after these words at the beginning, or None where it begins with others."""
        at = 0
        for word in words:
            choices = word.rstrip("?").split("|")
            if at < len(self.tokens) and self.tokens[at].is_word(*choices):
                at += 1
            elif not word.endswith("?"):
                return None
        return at

    def names(self) -> Iterator[tuple[int, list[Token]]]:
        """Each name with its dots, as the number of its first token and its parts."""
        at = 0
        while at < len(self.tokens):
            parts = self.name_at(at)
            if parts:
                yield at, parts
            at += max(1, 2 * len(parts) - 1)

    def name_at(self, at: int) -> list[Token]:
        """The parts of the name that begins at this token; empty where there is none."""
        parts: list[Token] = []
        while at < len(self.tokens) and self.tokens[at].is_name:
            parts.append(self.tokens[at])
            if at + 1 >= len(self.tokens) or self.tokens[at + 1].text != "." or self.tokens[at + 1].string:
                break
            at += 2
        return parts

    def replaced(self, pieces: list[tuple[int, int, str]]) -> str:
        """The text with pieces of it, as begin, end and what stands there instead."""
        text, last = [], 0
        for begin, end, instead in sorted(pieces):
            text += [self.text[last:begin], instead]
            last = end
        return "".join([*text, self.text[last:]])


@cache
def _tokenizer() -> Any:
    from sqlglot.dialects.databricks import Databricks

    # SHOW and its like are tokens as others are, and not one piece of text.
    return type("Words", (Databricks.Tokenizer,), {"COMMANDS": set()})
