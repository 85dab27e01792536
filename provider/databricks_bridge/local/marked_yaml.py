"""YAML whose values know where they stand, so that an error can name the file, the line and the key."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from databricks_bridge.core.errors import InvalidArgument


class FileError(InvalidArgument):
    """A YAML file says something that cannot work; the message is `file:line: key: what is wrong`."""


At = Callable[[str, int, str], FileError]


@dataclass(frozen=True)
class Entry:
    """A value of a YAML file: `key` is its path such as `workspaces.ops.port`. Every reader raises FileError."""

    file: Path
    key: str
    node: yaml.Node | None
    line: int

    def error(self, what: str) -> FileError:
        return FileError(f"{self.file}:{self.line}: {self.key + ': ' if self.key else ''}{what}")

    def at(self, name: str, line: int, what: str) -> FileError:
        """The error for what is below it, `name` in `line`."""
        key = f"{self.key}.{name}" if self.key and name else self.key or name
        return Entry(self.file, key, None, line or self.line).error(what)

    @property
    def empty(self) -> bool:
        return self.node is None or self.node.tag == "tag:yaml.org,2002:null"

    def fields(self, known: Collection[str] | None = None) -> dict[str, Entry]:
        """The entries of a mapping, in order; an empty value has none. With `known`, another key is an error."""
        if self.empty:
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"is {self._shown()}; give a mapping of keys to values")
        found: dict[str, Entry] = {}
        for name, (line, value) in (yaml_items(self.node, self.at) or {}).items():
            entry = Entry(self.file, f"{self.key}.{name}" if self.key else name, value, line)
            if known is not None and name not in known:
                raise entry.error(f"is not a key here; use {', '.join(sorted(known))}")
            found[name] = entry
        return found

    def items(self) -> list[Entry]:
        """The entries of a list; a single text stands for a list of one, an empty value for none."""
        if self.empty:
            return []
        if isinstance(self.node, yaml.SequenceNode):
            return [
                Entry(self.file, f"{self.key}[{number}]", node, node.start_mark.line + 1)
                for number, node in enumerate(self.node.value)
            ]
        if isinstance(self.node, yaml.ScalarNode):
            return [self]
        raise self.error(f"is {self._shown()}; give a list")

    def text(self) -> str:
        value = self.value()
        if not isinstance(value, str) or not value:
            raise self.error(f"is {self._shown()}; give text")
        return value

    def number(self, least: float, most: float) -> float:
        value = self.value()
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.error(f"is {self._shown()}; give a number from {least:g} to {most:g}")
        return float(value)

    def truth(self) -> bool:
        value = self.value()
        if not isinstance(value, bool):
            raise self.error(f"is {self._shown()}; give true or false")
        return value

    def value(self) -> Any:
        """All of it as plain Python values."""
        if self.node is None:
            return None
        return _plain(self.node, self.at, ())

    def _shown(self) -> str:
        if self.empty:
            return "empty"
        if isinstance(self.node, yaml.ScalarNode):
            return repr(self.node.value)
        return "a list" if isinstance(self.node, yaml.SequenceNode) else "a mapping"


def read_marked(file: Path) -> Entry:
    """The whole of a file. Raises FileError when it is not there or is no YAML."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise FileError(f"{file}:{line}: is not YAML: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FileError(f"{file}: is not YAML: {error}") from error
    return Entry(file, "", node, 1)


def yaml_items(node: yaml.Node, error: At) -> dict[str, tuple[int, yaml.Node]] | None:
    """The entries of a mapping, name to line and node, with those that `<<` merges below them; None for no mapping.

    :param error: makes the error for a name and line in this mapping, or for itself ("" and 0), from what is wrong.
    """
    if not isinstance(node, yaml.MappingNode):
        return None
    own: dict[str, tuple[int, yaml.Node]] = {}
    below: dict[str, tuple[int, yaml.Node]] = {}
    for key_node, value in node.value:
        line, name = key_node.start_mark.line + 1, key_node.value
        if not isinstance(key_node, yaml.ScalarNode):
            raise error("", line, "has a key that is no text")
        if key_node.tag == "tag:yaml.org,2002:merge":
            parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for part in parts:
                merged = None if part is node else yaml_items(part, error)
                if merged is None:
                    raise error("<<", line, "merges what is no mapping")
                below = {**merged, **below}
        elif name in own:
            raise error(name, line, "is given twice")
        else:
            own[name] = (line, value)
    return {**below, **own}


def scalar_of(node: yaml.Node) -> Any:
    """A scalar by the rules of YAML 1.2, as the Databricks CLI reads it: yes, on and dates are text."""
    text = str(node.value)
    kind = node.tag.rpartition(":")[2]
    if (kind == "bool" and text.lower() not in ("true", "false")) or kind == "timestamp" or ":" in text:
        return text
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node)
    finally:
        loader.dispose()


def _plain(node: yaml.Node, error: At, above: tuple[int, ...]) -> Any:
    if id(node) in above:
        raise error("", 0, "holds itself, by an alias")
    above = (*above, id(node))
    if (pairs := yaml_items(node, error)) is not None:
        return {name: _plain(inner, error, above) for name, (_, inner) in pairs.items()}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(inner, error, above) for inner in node.value]
    try:
        return scalar_of(node)
    except (yaml.YAMLError, ValueError) as wrong:
        raise error("", node.start_mark.line + 1, f"cannot be read: {wrong}") from None
