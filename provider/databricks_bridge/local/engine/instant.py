"""An engine without Spark, for tests of the API, the triggers and the life of a run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from databricks_bridge.local.engine.model import NotebookResult, NotebookRun

NotebookFunction = Callable[[NotebookRun], NotebookResult | Awaitable[NotebookResult]]


class InstantEngine:
    """Answers each run with what `function` returns for it. It may be plain or async; it runs no notebook."""

    def __init__(self, function: NotebookFunction) -> None:
        self._function = function

    async def start(self) -> None:
        """There is nothing to start."""

    async def run(self, request: NotebookRun) -> NotebookResult:
        """What the function says."""
        answer = self._function(request)
        return await answer if inspect.isawaitable(answer) else answer

    async def close(self) -> None:
        """There is nothing to stop."""
