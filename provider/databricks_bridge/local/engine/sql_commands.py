"""Statements on catalogs, volumes and grants, answered by the API of the workspace."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from databricks_bridge.local.engine.sql_text import Statement, Token
from databricks_bridge.local.engine.workspace_api import ApiRefused, current

KINDS = {"CATALOG": 1, "SCHEMA": 2, "DATABASE": 2, "TABLE": 3, "VIEW": 3, "VOLUME": 3}
_KIND_IN_API = {"DATABASE": "schema", "VIEW": "table"}
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Answer:
    """Rows of text, with the names of their columns."""

    columns: tuple[str, ...]
    rows: Rows


class NotUnderstood(Exception):
    """A statement of a kind that is served here, in a form that is not."""


class Reader:
    """Reads the rest of a statement token by token. `defaults` are the current catalog and schema."""

    def __init__(self, statement: Statement, at: int, defaults: Callable[[], tuple[str, str]]) -> None:
        self._statement, self._at, self._defaults = statement, at, defaults

    def take(self, *words: str) -> bool:
        """Step over these words, if they are next."""
        tokens = self._statement.tokens[self._at : self._at + len(words)]
        if len(tokens) < len(words) or not all(
            token.is_word(*word.split("|")) for token, word in zip(tokens, words, strict=True)
        ):
            return False
        self._at += len(words)
        return True

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise NotUnderstood(f"it wants {' '.join(words)} {self._where()}")

    def name(self, parts: int) -> str:
        """A name of so many parts, in lower case; what it leaves out is the current catalog or schema."""
        found = self._statement.name_at(self._at)
        if not found or len(found) > parts:
            raise NotUnderstood(f"it wants a name of at most {parts} parts {self._where()}")
        self._at += 2 * len(found) - 1
        given = [token.text.lower() for token in found]
        missing = self.defaults()[: parts - len(given)] if len(given) < parts else ()
        return ".".join([*missing, *given])

    def defaults(self) -> tuple[str, str]:
        """The current catalog and schema."""
        return self._defaults()

    def word(self) -> Token:
        if self._at >= len(self._statement.tokens):
            raise NotUnderstood(f"it ends too early {self._where()}")
        self._at += 1
        return self._statement.tokens[self._at - 1]

    def text(self) -> str:
        """A literal."""
        token = self.word()
        if not token.string:
            raise NotUnderstood(f"it wants a text in quotes {self._where()}")
        return token.text

    def peek(self, *words: str) -> bool:
        at = self._at
        found = self.take(*words)
        self._at = at
        return found

    def ended(self) -> bool:
        return self._at >= len(self._statement.tokens)

    def end(self) -> None:
        if not self.ended():
            raise NotUnderstood(f"it is not served with what comes {self._where()}")

    def _where(self) -> str:
        if self._at >= len(self._statement.tokens):
            return "at its end"
        return f"at {self._statement.text[self._statement.tokens[self._at].begin :][:40]!r}"


def show_catalogs(reader: Reader) -> Answer:
    found = [one["name"] for one in current().listed("catalogs", "catalogs")]
    return Answer(("catalog",), [(name,) for name in _like(reader, found)])


def create_catalog(reader: Reader) -> Answer:
    optional = reader.take("IF", "NOT", "EXISTS")
    name = reader.name(1)
    comment = reader.text() if reader.take("COMMENT") else None
    reader.end()
    body = {"name": name, **({} if comment is None else {"comment": comment})}
    _tolerating("CATALOG_ALREADY_EXISTS" if optional else "", lambda: current().call("POST", "catalogs", body))
    return Answer((), [])


def drop_catalog(reader: Reader) -> Answer:
    optional = reader.take("IF", "EXISTS")
    name = reader.name(1)
    force = reader.take("CASCADE")
    reader.take("RESTRICT")
    reader.end()
    _tolerating(
        "CATALOG_DOES_NOT_EXIST" if optional else "",
        lambda: current().call("DELETE", f"catalogs/{name}", None, force=str(force).lower()),
    )
    return Answer((), [])


def describe_catalog(reader: Reader) -> Answer:
    extended = reader.take("EXTENDED")
    name = reader.name(1)
    reader.end()
    found = current().call("GET", f"catalogs/{name}")
    rows: Rows = [("Catalog Name", found["name"]), ("Comment", found.get("comment", "")), ("Owner", found.get("owner"))]
    if extended:
        rows += [("Catalog Type", found.get("catalog_type"))]
    return Answer(("info_name", "info_value"), rows)


def create_volume(reader: Reader) -> Answer:
    optional = reader.take("IF", "NOT", "EXISTS")
    catalog, schema, name = reader.name(3).split(".")
    comment = reader.text() if reader.take("COMMENT") else None
    reader.end()
    body = {"catalog_name": catalog, "schema_name": schema, "name": name, "volume_type": "MANAGED"}
    body |= {} if comment is None else {"comment": comment}
    _tolerating("VOLUME_ALREADY_EXISTS" if optional else "", lambda: current().call("POST", "volumes", body))
    return Answer((), [])


def drop_volume(reader: Reader) -> Answer:
    optional = reader.take("IF", "EXISTS")
    name = reader.name(3)
    reader.end()
    _tolerating("VOLUME_DOES_NOT_EXIST" if optional else "", lambda: current().call("DELETE", f"volumes/{name}"))
    return Answer((), [])


def describe_volume(reader: Reader) -> Answer:
    name = reader.name(3)
    reader.end()
    found = current().call("GET", f"volumes/{name}")
    columns = ("name", "catalog", "database", "owner", "volumeType", "storageLocation", "comment")
    fields = ("name", "catalog_name", "schema_name", "owner", "volume_type", "storage_location", "comment")
    return Answer(columns, [tuple(found.get(field) for field in fields)])


def show_volumes(reader: Reader) -> Answer:
    if not reader.take("IN|FROM"):
        catalog, schema = reader.defaults()
    else:
        catalog, schema = reader.name(2).split(".")
    found = current().listed("volumes", "volumes", catalog_name=catalog, schema_name=schema)
    names = _like(reader, [one["name"] for one in found])
    return Answer(("database", "volume_name"), [(schema, name) for name in names])


def grant(reader: Reader) -> Answer:
    privileges = _privileges(reader, "ON")
    kind, name = _securable(reader)
    reader.need("TO")
    return _change(kind, name, _principal(reader), {"add": privileges})


def revoke(reader: Reader) -> Answer:
    privileges = _privileges(reader, "ON")
    kind, name = _securable(reader)
    reader.need("FROM")
    return _change(kind, name, _principal(reader), {"remove": privileges})


def show_grants(reader: Reader) -> Answer:
    principal = None if reader.peek("ON") else reader.word().text
    reader.need("ON")
    kind, name = _securable(reader)
    reader.end()
    asked = {} if principal is None else {"principal": principal}
    found = current().call("GET", f"effective-permissions/{kind}/{name}", None, **asked)
    rows: Rows = []
    for one in found.get("privilege_assignments", []):
        for privilege in one["privileges"]:
            inherited = (privilege.get("inherited_from_type"), privilege.get("inherited_from_name"))
            of = inherited if all(inherited) else (kind.upper(), name)
            rows.append((one["principal"], str(privilege["privilege"]).replace("_", " "), *of))
    return Answer(("Principal", "ActionType", "ObjectType", "ObjectKey"), rows)


def _like(reader: Reader, names: list[str]) -> list[str]:
    if reader.ended():
        return sorted(names)
    reader.take("LIKE")
    pattern = reader.text().lower()
    reader.end()
    return sorted(name for name in names if any(fnmatch.fnmatchcase(name, one) for one in pattern.split("|")))


def _privileges(reader: Reader, last: str) -> list[str]:
    """`SELECT, USE SCHEMA ON`, as the API names them."""
    found: list[str] = []
    words: list[str] = []
    while True:
        token = reader.word()
        if token.text == "," or token.is_word(last):
            found.append("_".join(words))
            words = []
        else:
            words.append(token.text.upper())
        if token.is_word(last):
            return ["ALL_PRIVILEGES" if one == "ALL" else one for one in found]


def _securable(reader: Reader) -> tuple[str, str]:
    for kind, parts in KINDS.items():
        if reader.take(kind):
            return _KIND_IN_API.get(kind, kind.lower()), reader.name(parts)
    for other in (
        "EXTERNAL",
        "STORAGE",
        "FUNCTION",
        "METASTORE",
        "CONNECTION",
        "SHARE",
        "MODEL",
        "SERVICE",
        "PROCEDURE",
    ):
        if reader.peek(other):
            raise NotUnderstood(f"grants are kept on {', '.join(KINDS)}, not on {other}")
    return "table", reader.name(3)


def _principal(reader: Reader) -> str:
    name = reader.word().text
    while not reader.ended():  # of a name with dots and dashes that is not in backquotes
        name += reader.word().text
    return name


def _change(kind: str, name: str, principal: str, change: dict[str, list[str]]) -> Answer:
    current().call("PATCH", f"permissions/{kind}/{name}", {"changes": [{"principal": principal, **change}]})
    return Answer((), [])


def _tolerating(code: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except ApiRefused as error:
        if not code or error.code not in (code, "RESOURCE_DOES_NOT_EXIST" if "NOT_EXIST" in code else code):
            raise


COMMANDS: tuple[tuple[tuple[str, ...], Callable[[Reader], Answer]], ...] = (
    (("SHOW", "CATALOGS"), show_catalogs),
    (("CREATE", "CATALOG"), create_catalog),
    (("DROP", "CATALOG"), drop_catalog),
    (("DESCRIBE|DESC", "CATALOG"), describe_catalog),
    (("CREATE", "VOLUME"), create_volume),
    (("DROP", "VOLUME"), drop_volume),
    (("DESCRIBE|DESC", "VOLUME"), describe_volume),
    (("SHOW", "VOLUMES"), show_volumes),
    (("GRANT",), grant),
    (("REVOKE",), revoke),
    (("SHOW", "GRANTS|GRANT"), show_grants),
)
"""How such a statement begins, and what answers it."""
