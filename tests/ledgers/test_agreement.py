"""Memory, Airflow, object store and control table go through the same random steps, and must say the same at each."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from databricks_bridge.core.errors import WriteLost
from databricks_bridge.core.record import Record
from databricks_bridge.ledgers.protocol import Ledger
from tests.core.builders import NOW, at
from tests.ledgers.keeps import KEEPS

FIRST = Record("delays", "consumer", {})


class Agreement(RuleBasedStateMachine):
    """Two writers share each keep; each remembers the record that it read last, and that may be stale."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.keeps: dict[str, Ledger] = {name: make(Path(self.folder.name)) for name, make in KEEPS.items()}
        self.known: list[Record | None] = [None, None]

    def same(self, call: str, *arguments: Any) -> Any:
        """What all keeps answered to one call; WriteLost counts as an answer."""
        answers = {}
        for name, keep in self.keeps.items():
            try:
                answers[name] = self.loop.run_until_complete(getattr(keep, call)(*arguments))
            except WriteLost as lost:
                answers[name] = str(lost)
        if call == "history":
            answers = {name: [(one.revision, one.what) for one in answer] for name, answer in answers.items()}
        first = next(iter(answers.values()))
        assert all(answer == first for answer in answers.values()), answers
        return first

    @rule(writer=st.integers(0, 1))
    def read(self, writer: int) -> None:
        self.known[writer] = self.same("read")

    @rule(writer=st.integers(0, 1), version=st.integers(0, 9))
    def write_what_follows(self, writer: int, version: int) -> None:
        base = self.known[writer] or FIRST
        record = base.after(NOW, f"to {version}", watermarks={"flights": at(version)})
        if self.same("write", record) is None:
            self.known[writer] = record

    @rule(revision=st.integers(0, 6))
    def write_any_revision(self, revision: int) -> None:
        self.same("write", replace(FIRST.after(NOW, "any"), revision=revision))

    @invariant()
    def all_hold_the_same(self) -> None:
        self.same("read")

    @rule(count=st.integers(0, 4))
    def history(self, count: int) -> None:
        record = self.same("read")
        if record is not None and len(record.history) == record.revision:
            self.same("history", count)

    def teardown(self) -> None:
        self.loop.close()
        self.folder.cleanup()


class TestAgreement(Agreement.TestCase):  # type: ignore[misc]
    settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
