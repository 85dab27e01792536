"""The configuration of a bundle: plain values, each of which knows the file and the line that it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from databricks_bridge.local.marked_yaml import FileError, read_marked, scalar_of, yaml_items


@dataclass(frozen=True)
class Value:
    """`data` is a scalar, a list of Values or a mapping of names to Values; `key` is the path in the file."""

    file: Path
    line: int
    key: str
    data: Any

    def error(self, what: str) -> FileError:
        """The error for this place: `file:line: key: what`."""
        return FileError(f"{self.file}:{self.line}: {self.key + ': ' if self.key else ''}{what}")

    def at(self, name: str, line: int, what: str) -> FileError:
        """The error for what is below it, `name` in `line`."""
        key = f"{self.key}.{name}" if self.key and name else self.key or name
        return replace(self, key=key, line=line or self.line).error(what)

    def like(self, data: Any) -> Value:
        """Another value for the same place."""
        return replace(self, data=data)

    def fields(self) -> Mapping[str, Value]:
        """The entries of a mapping; none where it is empty. Raises FileError."""
        if self.data is None:
            return {}
        if not isinstance(self.data, dict):
            raise self.error("give a mapping of keys to values")
        return self.data

    def items(self) -> list[Value]:
        """The entries of a list; none where it is empty. Raises FileError."""
        if self.data is None:
            return []
        if not isinstance(self.data, list):
            raise self.error("give a list")
        return self.data

    def get(self, *path: str) -> Value | None:
        """What stands at this path of names, None where there is nothing."""
        found: Value | None = self
        for name in path:
            if found is None or not isinstance(found.data, dict):
                return None
            found = found.data.get(name)
        return None if found is None or found.data is None else found

    def text(self) -> str:
        """Raises FileError for what is no text or empty."""
        if not isinstance(self.data, str) or not self.data:
            raise self.error("give text")
        return self.data

    def plain(self) -> Any:
        """All of it without places."""
        if isinstance(self.data, dict):
            return {name: value.plain() for name, value in self.data.items()}
        if isinstance(self.data, list):
            return [value.plain() for value in self.data]
        return self.data


def read_values(file: Path) -> Value:
    """A YAML file with its anchors and merge keys carried out. Raises FileError."""
    return _value(file, "", 1, read_marked(file).node, ())


def placed(where: Value, data: Any) -> Value:
    """Plain `data` as Values that stand where `where` does."""
    if isinstance(data, dict):
        return where.like({name: placed(where, inner) for name, inner in data.items()})
    if isinstance(data, list):
        return where.like([placed(where, inner) for inner in data])
    return where.like(data)


def walk(value: Value) -> Iterator[Value]:
    """This value and all below it."""
    yield value
    below = value.data.values() if isinstance(value.data, dict) else value.data if isinstance(value.data, list) else ()
    for inner in below:
        yield from walk(inner)


def _value(file: Path, key: str, line: int, node: Any, above: tuple[int, ...]) -> Value:
    here = Value(file, line, key, None)
    if node is None:
        return here
    if id(node) in above:
        raise here.error("holds itself, by an alias")
    above = (*above, id(node))
    if (pairs := yaml_items(node, here.at)) is not None:
        return here.like(
            {
                name: _value(file, f"{key}.{name}" if key else name, at, inner, above)
                for name, (at, inner) in pairs.items()
            }
        )
    if isinstance(node.value, list):
        return here.like(
            [
                _value(file, f"{key}[{number}]", inner.start_mark.line + 1, inner, above)
                for number, inner in enumerate(node.value)
            ]
        )
    try:
        return here.like(scalar_of(node))
    except (yaml.YAMLError, ValueError) as wrong:
        raise here.error(f"cannot be read: {wrong}") from None
