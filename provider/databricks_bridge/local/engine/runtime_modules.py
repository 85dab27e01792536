"""The modules that a Databricks cluster has beside PySpark: `dbruntime`, `pyspark.dbutils` and IPython's shell.

The Databricks SDK looks for `dbruntime`; where it finds none it takes itself for a program outside of Databricks, whose
`dbutils` asks a cluster and whose task values go nowhere.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

from databricks_bridge.local.engine.job_context import CommandContext


def install(names: dict[str, Any], context: CommandContext) -> None:
    """Make the modules importable. `names` is the namespace of the notebook, which they hand out.

    :param names: the notebook's globals
    :param context: what the run says of itself
    """
    _add("dbruntime", UserNamespaceInitializer=_initializer(names))
    _add("dbruntime.databricks_repl_context", get_context=lambda: _repl_context(context))
    _add("dbruntime.dbutils", DBUtils=_dbutils_class(names))
    _add("dbruntime.display", display=names["display"], displayHTML=names["displayHTML"])
    _add("pyspark.dbutils", DBUtils=_dbutils_class(names))
    shell = SimpleNamespace(user_ns=names, ns_table={"user_global": names, "user_local": names})
    names["get_ipython"] = lambda: shell
    if importlib.util.find_spec("IPython") is None:
        _add("IPython", get_ipython=names["get_ipython"])
        html = names["displayHTML"]
        _add("IPython.display", display=names["display"], display_html=lambda text, **_: html(text), HTML=str)
    else:
        sys.meta_path.insert(0, _ShellFinder(names["get_ipython"]))


def _add(name: str, **content: Any) -> None:
    module = ModuleType(name, "Of the local workspace, in the place of Databricks' own.")
    module.__dict__.update(content)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if not parent:
        module.__path__ = []
    elif parent in sys.modules:
        setattr(sys.modules[parent], child, module)


def _initializer(names: dict[str, Any]) -> type:
    class UserNamespaceInitializer:
        """What the SDK asks for the names of the notebook."""

        @staticmethod
        def getOrCreate() -> UserNamespaceInitializer:
            return UserNamespaceInitializer()

        def get_namespace_globals(self) -> Mapping[str, Any]:
            return names

    return UserNamespaceInitializer


def _dbutils_class(names: dict[str, Any]) -> type:
    class DBUtils:
        """`DBUtils(spark)` is the dbutils of the notebook."""

        def __new__(cls, spark: Any = None) -> Any:
            return names["dbutils"]

    return DBUtils


def _repl_context(context: CommandContext) -> SimpleNamespace:
    tags = context.tags()
    known = {name: tags.getOrElse(name, None) for name in ("jobId", "clusterId", "taskKey")}
    return SimpleNamespace(
        apiUrl=context.apiUrl().get(),
        apiToken=context.apiToken().get(),
        workspaceUrl=context.browserHostName().getOrElse(None),
        workspaceId=context.workspaceId().getOrElse(None),
        notebookPath=context.notebookPath().getOrElse(None),
        currentRunId=tags.getOrElse("runId", None),
        isInJob=context.isInJob(),
        isInNotebook=context.notebookPath().isDefined(),
        **known,
    )


class _ShellFinder(importlib.abc.MetaPathFinder):
    """Gives IPython, once it is imported, the shell of the notebook."""

    def __init__(self, get_ipython: Callable[[], Any]) -> None:
        self._get_ipython = get_ipython

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "IPython":
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(fullname)
        if found is not None and found.loader is not None:
            run = found.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                module.get_ipython = self._get_ipython  # type: ignore[attr-defined]

            found.loader.exec_module = exec_module  # type: ignore[method-assign]
        return found
