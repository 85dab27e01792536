"""A deployment folder with real files and real Delta tables, its scheduler, and a clock that the test moves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from databricks_bridge.local.layout import Layout
from databricks_bridge.local.triggers import TriggerScheduler
from databricks_bridge.local.triggers.switches import Switches
from tests.local.triggers.port import BEGINNING, ManualClock, MemoryJobs

URL = "/Volumes/main/landing/flights/"
FLIGHTS, WEATHER = "main.silver.flights", "main.silver.weather"


class Site:
    """A deployment folder with a scheduler; its clock stamps what is written."""

    def __init__(self, home: Path, time_scale: float = 1.0, **switches: Any) -> None:
        self.layout, self.clock = Layout(home), ManualClock()
        self.jobs = MemoryJobs(self.clock)
        self.time_scale, self.switches = time_scale, switches
        self.revoked: set[str] = set()
        self.scheduler = self.new_scheduler()

    def new_scheduler(self) -> TriggerScheduler:
        return TriggerScheduler(
            self.layout,
            self.jobs,
            now=self.clock.now,
            sleep=self.clock.sleep,
            time_scale=self.time_scale,
            switches=lambda: Switches(**self.switches),
            missing_privilege=lambda job, kind, name: f"SELECT on {name}" if name in self.revoked else None,
        )

    async def until(self, seconds: float) -> None:
        """Run the loop, at its own rhythm, up to `seconds` after the beginning."""
        while self.clock.at < BEGINNING + seconds:
            await self.scheduler.tick()
            await self.clock.sleep(min(0.25, 15 * self.time_scale))
        self.clock.at = BEGINNING + seconds
        await self.scheduler.tick()

    def drop(self, name: str, text: str = "x") -> Path:
        file = self.layout.volume_path("ops", URL + name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.touch(file)
        return file

    def write(self, table: str, *values: int, mode: str = "append", **more: Any) -> Path:
        from deltalake import write_deltalake

        path = self.layout.table_path("ops", table)
        path.mkdir(parents=True, exist_ok=True)
        write_deltalake(str(path), pa.table({"n": pa.array(values, pa.int64())}), mode=mode, **more)
        self.stamp(path)
        return path

    def stamp(self, path: Path) -> None:
        """The newest commit was made now."""
        self.touch(max((path / "_delta_log").glob("*.json")))

    def touch(self, file: Path) -> None:
        """The file was written now."""
        os.utime(file, (self.clock.at, self.clock.at))

    def fired(self) -> list[int]:
        return [run.job_id for run in self.jobs.started]


def on_files(**timers: int) -> dict[str, Any]:
    return {"trigger": {"file_arrival": {"url": URL, **timers}}}


def on_tables(*names: str, **more: Any) -> dict[str, Any]:
    return {"trigger": {"table_update": {"table_names": list(names), **more}}}
