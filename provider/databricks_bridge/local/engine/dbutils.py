"""The part of `dbutils` that jobs' notebooks use: widgets, notebook.exit, jobs.taskValues, fs on volumes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.job_context import CommandContext, EntryPoint
from databricks_bridge.local.engine.paths import VolumePaths


class InputWidgetNotDefined(Exception):
    """The notebook asks for a widget that has neither a parameter nor a default. Named as on Databricks."""


class NotebookExit(BaseException):
    """`dbutils.notebook.exit`. A BaseException, so that the notebook's own `except Exception` does not catch it."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


class NotServed:
    """A part of dbutils that is refused by name at its first use."""

    def __init__(self, name: str, instead: str = "") -> None:
        self._name = name
        self._instead = instead

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise NotServedHere(f"{self._name}.{attribute} is not served by the local workspace. {self._instead}".strip())


class Widgets:
    """`dbutils.widgets`: the run's parameters, and the defaults that the notebook declares."""

    def __init__(self, parameters: dict[str, str]) -> None:
        self._parameters = dict(parameters)
        self._defaults: dict[str, str] = {}

    def get(self, name: str) -> str:
        """The parameter, else the declared default. Raises InputWidgetNotDefined."""
        values = self.getAll()
        if name not in values:
            raise InputWidgetNotDefined(f"No input widget named {name} is defined")
        return values[name]

    def getAll(self) -> dict[str, str]:
        return self._defaults | self._parameters

    def getArgument(self, name: str, defaultValue: str | None = None) -> str:
        """The parameter or declared default, else `defaultValue`. Raises InputWidgetNotDefined without any."""
        values = self.getAll()
        return self.get(name) if name in values or defaultValue is None else defaultValue

    def text(self, name: str, defaultValue: str, label: str | None = None) -> None:
        self._defaults[name] = str(defaultValue)

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str | None = None) -> None:
        self._defaults[name] = str(defaultValue)

    combobox = dropdown
    multiselect = dropdown

    def remove(self, name: str) -> None:
        self._defaults.pop(name, None)

    def removeAll(self) -> None:
        self._defaults.clear()


class Notebook:
    """`dbutils.notebook`."""

    def __init__(self, context: CommandContext) -> None:
        self.entry_point = EntryPoint(context)

    def getContext(self) -> CommandContext:
        return self.entry_point.getContext()

    def exit(self, value: str) -> NoReturn:
        """End the notebook here, successfully, with this value."""
        raise NotebookExit(str(value))

    def run(self, path: str, timeout_seconds: int = 0, arguments: dict[str, str] | None = None) -> NoReturn:
        raise NotServedHere("dbutils.notebook.run is not served by the local workspace; make it a task of the job.")


TASK_VALUE_LIMIT = 48 * 1024
"""Bytes of one task value as JSON."""


class TaskValues:
    """`dbutils.jobs.taskValues`: what this task tells later ones, and what earlier ones told."""

    def __init__(self, told: Mapping[str, Mapping[str, Any]]) -> None:
        self._told = told
        self.own: dict[str, Any] = {}

    def set(self, key: str, value: Any) -> None:
        """Keep a JSON value of at most 48 KiB. Raises TypeError for another kind, ValueError for a longer one."""
        text = json.dumps(value)
        if len(text.encode()) > TASK_VALUE_LIMIT:
            raise ValueError(f"The task value {key} is longer than {TASK_VALUE_LIMIT} bytes")
        self.own[key] = json.loads(text)

    def get(self, taskKey: str, key: str, default: Any = None, debugValue: Any = None) -> Any:
        """The value, else the default. Raises ValueError where there is neither; `debugValue` is for outside of jobs."""
        values = self._told.get(taskKey, {})
        if key in values:
            return values[key]
        if default is None:
            raise ValueError(f"No task value with key {key} was found for task {taskKey}, and no default was given")
        return default


class Jobs:
    """`dbutils.jobs`."""

    def __init__(self, told: Mapping[str, Mapping[str, Any]]) -> None:
        self.taskValues = TaskValues(told)


@dataclass(frozen=True)
class FileInfo:
    """One entry of `dbutils.fs.ls`; `size` in bytes, `modificationTime` in ms since the epoch."""

    path: str
    name: str
    size: int
    modificationTime: int

    def isDir(self) -> bool:
        return self.name.endswith("/")

    def isFile(self) -> bool:
        return not self.isDir()


class FileSystem:
    """`dbutils.fs` on `/Volumes/...` paths, and on no others."""

    def __init__(self, volumes: VolumePaths) -> None:
        self._volumes = volumes

    def ls(self, path: str) -> list[FileInfo]:
        folder = self._local(path)
        if not folder.exists():
            raise FileNotFoundError(f"{path} does not exist")
        entries = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        return [self._info(entry) for entry in entries]

    def mkdirs(self, path: str) -> bool:
        self._local(path).mkdir(parents=True, exist_ok=True)
        return True

    def put(self, path: str, contents: str, overwrite: bool = False) -> bool:
        file = self._local(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w" if overwrite else "x", encoding="utf-8") as handle:
            handle.write(contents)
        return True

    def head(self, path: str, maxBytes: int = 65536) -> str:
        with self._local(path).open("rb") as handle:
            return handle.read(maxBytes).decode(errors="replace")

    def rm(self, path: str, recurse: bool = False) -> bool:
        target = self._local(path)
        if not target.exists():
            return False
        if not target.is_dir():
            target.unlink()
        elif recurse:
            shutil.rmtree(target)
        else:
            target.rmdir()
        return True

    def cp(self, source: str, target: str, recurse: bool = False) -> bool:
        begin, end = self._local(source), self._local(target)
        if begin.is_dir() and not recurse:
            raise IsADirectoryError(f"{source} is a folder; say recurse=True")
        end.parent.mkdir(parents=True, exist_ok=True)
        if begin.is_dir():
            shutil.copytree(begin, end, dirs_exist_ok=True)
        else:
            shutil.copyfile(begin, end / begin.name if end.is_dir() else end)
        return True

    def mv(self, source: str, target: str, recurse: bool = False) -> bool:
        return self.cp(source, target, recurse) and self.rm(source, recurse)

    def _local(self, path: str) -> Path:
        if not self._volumes.is_volume_path(path):
            raise NotServedHere(f"{path}: dbutils.fs of the local workspace serves /Volumes/... paths only.")
        return Path(self._volumes.local(path))

    def _info(self, entry: Path) -> FileInfo:
        status = entry.stat()
        slash = "/" if entry.is_dir() else ""
        path = "dbfs:" + self._volumes.volume_path(str(entry)) + slash
        size = 0 if slash else status.st_size
        return FileInfo(path, entry.name + slash, size, int(status.st_mtime * 1000))


class DBUtils:
    """`dbutils` as a notebook of the local workspace sees it."""

    def __init__(
        self,
        parameters: dict[str, str],
        volumes: VolumePaths,
        task_values: Mapping[str, Mapping[str, Any]] | None = None,
        context: CommandContext | None = None,
    ) -> None:
        self.context = context or CommandContext({}, "", "")
        self.widgets = Widgets(parameters)
        self.notebook = Notebook(self.context)
        self.fs = FileSystem(volumes)
        self.jobs = Jobs(task_values or {})
        self.secrets = NotServed("dbutils.secrets", "Pass what is needed as a job parameter.")
        self.library = NotServed("dbutils.library")
        self.credentials = NotServed("dbutils.credentials")
        self.data = NotServed("dbutils.data")
        self.meta = NotServed("dbutils.meta")

    @property
    def entry_point(self) -> EntryPoint:
        return self.notebook.entry_point

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotServedHere(f"dbutils.{name} is not served by the local workspace.")
