"""`dbutils.notebook.entry_point`: what a notebook may ask of the run that it is.

On Databricks it is a Java object that is reached through Py4J, so its values are methods, and what may be missing is an
Option. The parts that notebooks use are here, under those names; others are refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from databricks_bridge.local.engine.errors import NotServedHere

NAME = "dbutils.notebook.entry_point.getDbutils().notebook().getContext()"


class Option:
    """Scala's Option: a value, or None."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self) -> Any:
        """The value. Raises ValueError where there is none."""
        if self._value is None:
            raise ValueError("None.get: the run has no such value")
        return self._value

    def getOrElse(self, default: Any) -> Any:
        return default if self._value is None else self._value

    def isDefined(self) -> bool:
        return self._value is not None

    nonEmpty = isDefined

    def isEmpty(self) -> bool:
        return self._value is None

    def toString(self) -> str:
        return "None" if self._value is None else f"Some({self._value})"

    __str__ = __repr__ = toString


class ScalaMap:
    """Scala's Map of text."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def get(self, key: str) -> Option:
        return Option(self._values.get(key))

    def getOrElse(self, key: str, default: Any) -> Any:
        return self._values.get(key, default() if callable(default) else default)

    def apply(self, key: str) -> str:
        """The value. Raises KeyError where there is none."""
        return self._values[key]

    def contains(self, key: str) -> bool:
        return key in self._values

    def size(self) -> int:
        return len(self._values)

    def toString(self) -> str:
        return f"Map({', '.join(f'{key} -> {value}' for key, value in self._values.items())})"

    __str__ = __repr__ = toString


class RunId:
    """The id of a run, as the context has it."""

    def __init__(self, value: int) -> None:
        self._value = value

    def id(self) -> int:
        return self._value

    def toString(self) -> str:
        return str(self._value)

    __str__ = __repr__ = toString


class CommandContext:
    """`getContext()`. `known` are the run's own facts, by the names that the tags have on Databricks.

    :param known: `runId`, `jobId`, `taskKey`, `notebookPath`, `orgId`, `user` and so on; what a run lacks is left out
    :param host: address of the workspace
    :param token: what a notebook may use to call the workspace
    """

    def __init__(self, known: Mapping[str, str], host: str, token: str) -> None:
        self._tags = {name: value for name, value in known.items() if name != "notebookPath"}
        self._values = {
            "notebookPath": known.get("notebookPath"),
            "apiUrl": host,
            "apiToken": token,
            "userName": known.get("user"),
            "jobId": known.get("jobId"),
            "workspaceId": known.get("orgId"),
            "browserHostName": host.partition("://")[2] or None,
            "clusterId": known.get("clusterId"),
            "taskKey": known.get("taskKey"),
        }

    def tags(self) -> ScalaMap:
        return ScalaMap(self._tags)

    def extraContext(self) -> ScalaMap:
        found = {"notebook_path": self._values["notebookPath"], "api_url": self._values["apiUrl"]}
        return ScalaMap({name: value for name, value in found.items() if value is not None})

    def currentRunId(self) -> Option:
        return self._run("runId")

    def rootRunId(self) -> Option:
        return self._run("multitaskParentRunId")

    def isInJob(self) -> bool:
        return "jobId" in self._tags

    def toJson(self) -> str:
        """The context as JSON, without the token."""
        run, root = (self._tags.get(name) for name in ("runId", "multitaskParentRunId"))
        return json.dumps(
            {
                "rootRunId": None if root is None else {"id": int(root)},
                "currentRunId": None if run is None else {"id": int(run)},
                "jobGroup": None,
                "tags": self._tags,
                "extraContext": self.extraContext()._values,
            }
        )

    safeToJson = toJson

    def __getattr__(self, name: str) -> Callable[[], Option]:
        values = self.__dict__.get("_values", {})
        if name in values:
            return lambda: Option(values[name])
        raise NotServedHere(f"{NAME}.{name} is not served by the local workspace.")

    def _run(self, tag: str) -> Option:
        return Option(RunId(int(self._tags[tag])) if tag in self._tags else None)


class EntryPoint:
    """`dbutils.notebook.entry_point`, with the ways that lead to the context and no other."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def getDbutils(self) -> EntryPoint:
        return self

    def notebook(self) -> EntryPoint:
        return self

    def getContext(self) -> CommandContext:
        return self._context

    def __getattr__(self, name: str) -> NoReturn:
        raise NotServedHere(f"dbutils.notebook.entry_point...{name} is not served by the local workspace.")
