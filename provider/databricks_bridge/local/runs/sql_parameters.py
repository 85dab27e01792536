"""`{{name}}` in the file of a SQL task: a parameter of the task or the job, or a dynamic value reference.

Outside of quotes a value stands as a literal, as that of `:name` does, but where only a name or a number can be: there it
stands as it is. Within quotes it is a part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<name>`[^`]*`)"
    r"|\{\{\s*(?P<open>[^{}]+?)\s*\}\}",
    re.DOTALL,
)
_MARK = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_BEFORE_NAMES = re.compile(
    r"(?:\b(?:FROM|JOIN|TABLE|VIEW|INTO|UPDATE|SCHEMA|DATABASE|VOLUME|EXISTS|USE|BY|AS|ON|HISTORY|DETAIL|EXTENDED)\s+|[\w.`])$",
    re.IGNORECASE,
)
_AFTER_NAMES = re.compile(r"^[\w.`]")


class NoSuchParameter(ValueError):
    """A file asks for a parameter that nothing gives."""


def substituted(text: str, parameters: Mapping[str, str], references: Mapping[str, str]) -> str:
    """The text with the values in it. Raises NoSuchParameter.

    :param text: of the file
    :param parameters: of the task, with those of the job
    :param references: dynamic values by their names, such as `job.id`
    """

    def value(name: str) -> str:
        plain = name.replace("`", "")
        if plain in parameters:
            return parameters[plain]
        if plain in references:
            return references[plain]
        given = ", ".join(sorted(parameters)) or "none"
        raise NoSuchParameter(
            f"The SQL file asks for {{{{{name}}}}}, which is no parameter of the task or the job (there: {given}) and no "
            "dynamic value reference"
        )

    def put(part: re.Match[str]) -> str:
        if part["comment"]:
            return part[0]
        if quoted := part["text"]:
            escape = quoted[0]
            return _MARK.sub(lambda mark: value(mark[1]).replace("\\", "\\\\").replace(escape, "\\" + escape), quoted)
        if part["name"]:
            return _MARK.sub(lambda mark: value(mark[1]).replace("`", "``"), part[0])
        found = value(part["open"])
        is_name = _BEFORE_NAMES.search(text[: part.start()]) or _AFTER_NAMES.match(text[part.end() :])
        if is_name or _NUMBER.fullmatch(found):
            return found
        return "'" + found.replace("\\", "\\\\").replace("'", "\\'") + "'"

    return _PART.sub(put, text)
