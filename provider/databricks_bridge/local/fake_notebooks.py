"""An engine whose notebooks are declared Python functions: no Java, no Spark, nothing that a notebook's text says is run."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from databricks_bridge.core.errors import BridgeError, InvalidArgument
from databricks_bridge.local.engine.model import NotebookResult, NotebookRun
from databricks_bridge.local.layout import Layout


class NotebookNotDeclared(BridgeError):
    """A job ran a notebook for which no function was declared."""


@dataclass(frozen=True)
class NotebookCall:
    """One run of a declared notebook, as its function sees it.

    `path` is the notebook's path in the workspace, `parameters` its widgets, `workspace` the name of the workspace.
    """

    workspace: str
    path: str
    parameters: Mapping[str, str]
    run_id: int
    _run: NotebookRun = field(repr=False)

    def table(self, full_name: str) -> str:
        """The folder of the table `catalog.schema.table` in this workspace's metastore, as `deltalake` takes it."""
        parts = full_name.split(".")
        if len(parts) != 3 or not all(parts):
            raise InvalidArgument(f"{full_name!r} is not catalog.schema.table")
        return str(self._run.metastore_root.joinpath(*parts))

    def volume(self, path: str) -> Path:
        """The file or folder behind `/Volumes/catalog/schema/volume/...`."""
        parts = PurePosixPath(path).parts
        if len(parts) < 5 or parts[:2] != ("/", "Volumes") or ".." in parts:
            raise InvalidArgument(f"{path!r} is not /Volumes/catalog/schema/volume/...")
        return self._run.volumes_root.joinpath(*parts[2:])


NotebookFunction = Callable[[NotebookCall], object]
"""What it returns is the run's exit value: text, or None. What it raises fails the run, under the name of its class."""


class FakeNotebooks:
    """Runs the function that is declared for a notebook's path. Paths are with or without `/Workspace` and `.py`."""

    def __init__(self, layout: Layout, notebooks: Mapping[str, NotebookFunction]) -> None:
        self._layout = layout
        self._functions = {_plain(path): function for path, function in notebooks.items()}

    async def start(self) -> None:
        """There is nothing to start."""

    async def run(self, request: NotebookRun) -> NotebookResult:
        """What the function returned or raised. It runs in a thread, which a cancelled run leaves behind."""
        workspace, path = self._place(request.notebook)
        function = self._functions.get(path)
        call = NotebookCall(workspace, path, dict(request.parameters), request.run_id, request)
        try:
            if function is None:
                raise NotebookNotDeclared(
                    f"no function is declared for the notebook {path} of the workspace {workspace}; declared: "
                    f"{', '.join(sorted(self._functions)) or 'none'}"
                )
            value = await asyncio.to_thread(function, call)
        except Exception as error:  # noqa: BLE001 - whatever a notebook raises is its result
            return NotebookResult(False, None, f"{type(error).__name__}: {error}", traceback.format_exc())
        return NotebookResult(True, None if value is None else str(value), None, None)

    async def close(self) -> None:
        """There is nothing to stop."""

    def _place(self, notebook: Path) -> tuple[str, str]:
        name = notebook.relative_to(self._layout.home / "workspaces").parts[0]
        return name, _plain("/" + notebook.relative_to(self._layout.workspace_files(name)).as_posix())


def _plain(path: str) -> str:
    if not path.startswith("/"):
        raise InvalidArgument(f"notebook {path!r}: give its path in the workspace, which begins with /")
    return path.removeprefix("/Workspace").removesuffix(".py")
