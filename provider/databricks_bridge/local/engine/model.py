"""What the runs of a local deployment ask of an engine, and what they get back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

USER_NAME = "local-workspace"
"""The one user of a deployment: for the API, and for `current_user()`."""


@dataclass(frozen=True)
class NotebookRun:
    """One execution of one notebook.

    `notebook` is a `.py` file, in Databricks' source format or plain. `metastore_root` holds
    `<catalog>/<schema>/<table>`, `volumes_root` holds `<catalog>/<schema>/<volume>`. `log` receives what the notebook
    prints, as it prints it. `arguments` are those of the command line, of a Python file. `task_values` are what the
    tasks before it set, by task key and name. `lineage`, if given, receives what its statements read and wrote, as they
    end (`sql/system_lineage.py` reads it). `context` is what the run says of itself, by the names of Databricks' tags.
    `serverless` says that its task names no cluster.
    `ca_file` is what a client of `host` has to trust.
    """

    run_id: int
    task_key: str
    metastore_root: Path
    volumes_root: Path
    notebook: Path
    parameters: dict[str, str]
    host: str
    token: str = field(repr=False)
    log: Path
    arguments: tuple[str, ...] = ()
    task_values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lineage: Path | None = None
    context: Mapping[str, str] = field(default_factory=dict)
    serverless: bool = False
    ca_file: Path | None = None


@dataclass(frozen=True)
class NotebookResult:
    """How a notebook ended.

    `exit_value` is what it gave to `dbutils.notebook.exit`. `error` is `ClassName: message`, as `runs/get-output` shows
    it, and `error_trace` the Python traceback; both None when it succeeded. `task_values` are what it set, of JSON
    values. `cells` says of each cell that was run: its first line, and where its output begins and ends in the log.
    """

    succeeded: bool
    exit_value: str | None
    error: str | None
    error_trace: str | None
    task_values: Mapping[str, Any] = field(default_factory=dict)
    cells: Sequence[Sequence[int]] = ()


class Engine(Protocol):
    """Runs notebooks. Several runs may be under way at once."""

    async def start(self) -> None:
        """Make ready; returns when `run` can be called."""

    async def run(self, request: NotebookRun) -> NotebookResult:
        """Run one notebook to its end. A notebook that fails is a result, not an exception.

        Cancelling the call kills the notebook's process and cleans up its streams and jobs before it returns.
        """

    async def close(self) -> None:
        """Stop everything that `start` and `run` started. May be called twice."""
