"""The jobs of a busy workspace, what happens to what they watch, and their runs, as seen over HTTP."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from databricks_bridge.local.layout import Layout
from faults.busy.checker import Account, Change, Fired
from faults.busy.server import WORKSPACE

Json = dict[str, Any]
LOOK_SECONDS = 60.0
SETTLE_SECONDS = 60.0
READY_WITHIN = 60.0
SEEN_AGAIN_MS = 3000
"""A run may be listed so long after its start time."""


@dataclass
class Server:
    """The workspace's process, and its HTTP. `downs` are the times in epoch milliseconds at which it was not there."""

    home: Path
    scale: float
    notebook_seconds: float = 0.0
    pid: int = 0
    downs: list[tuple[int, int]] = field(default_factory=list)
    _parent: subprocess.Popen[str] | None = None
    _http: httpx.Client | None = None
    _down_since: int = 0

    @property
    def interval(self) -> float:
        """Seconds between two looks at one trigger."""
        return LOOK_SECONDS * self.scale

    def start(self) -> None:
        """Start it, without waiting. Raises RuntimeError when its parent has ended."""
        if self._parent is None:
            command = [sys.executable, "-m", "faults.busy.server", str(self.home), f"{self.scale}"]
            self._parent = subprocess.Popen(
                [*command, f"{self.notebook_seconds}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write("start\n")
        self._parent.stdin.flush()
        said = self._parent.stdout.readline().strip()
        if not said:
            raise RuntimeError("the busy workspace's process does not start")
        self.pid = int(said)

    def wait(self) -> None:
        """Until it answers. Raises RuntimeError when it ends instead."""
        file, deadline = self.home / "deployment.json", time.monotonic() + READY_WITHIN
        while not (file.exists() and (told := json.loads(file.read_text()))["pid"] == self.pid):
            if time.monotonic() > deadline or not Path(f"/proc/{self.pid}/fd").exists():
                raise RuntimeError(f"the busy workspace did not come up; its log is {self.home / 'server.log'}")
            time.sleep(0.01)
        mine = told["workspaces"][WORKSPACE]
        headers = {"authorization": f"Bearer {mine['token']}"}
        self._http = httpx.Client(base_url=mine["host"], headers=headers, timeout=30, trust_env=False)
        if self._down_since:
            self.downs.append((self._down_since, now_ms()))
            self._down_since = 0

    def kill(self) -> None:
        """`kill -9`, at once."""
        self._down_since = self._down_since or now_ms()
        os.kill(self.pid, signal.SIGKILL)
        if self._http is not None:
            self._http.close()
            self._http = None

    def stop(self) -> None:
        """The end of it, and of its parent."""
        if self.pid:
            self.kill()
        if self._parent is not None:
            self._parent.communicate(timeout=30)

    def call(self, method: str, path: str, body: Json | None = None, **query: Any) -> Json:
        """One call. Raises httpx.HTTPError."""
        assert self._http is not None, "the workspace is down"
        answer = self._http.request(method, path, json=body, params=query)
        answer.raise_for_status()
        return dict(answer.json()) if answer.content else {}

    def upload(self, path: str, content: bytes) -> None:
        assert self._http is not None
        self._http.put(f"/api/2.0/fs/files{path}", content=content).raise_for_status()

    def runs(self, since: int) -> Iterator[Json]:
        """All runs that started at `since` or later."""
        query: Json = {"limit": 24, "start_time_from": since}
        while True:
            page = self.call("GET", "/api/2.2/jobs/runs/list", **query)
            yield from page.get("runs", [])
            if "next_page_token" not in page:
                return
            query["page_token"] = page["next_page_token"]


@dataclass
class Watch:
    """One job that fires, what came for it, and its runs by id. `after` is the job for whose runs it waits."""

    name: str
    kind: str
    job_id: int
    changes: list[Change] = field(default_factory=list)
    runs: dict[int, Fired] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    after: Watch | None = None
    next_at: float = 0.0
    period_ms: int = 0
    set_at: int = 0


@dataclass
class World:
    """A workspace with its jobs. One change of a job at a time: the next comes some time after its run has been seen."""

    server: Server
    random: random.Random
    rest: tuple[float, float]
    """Seconds, from and to, between a run that was seen and the next change of its job."""
    uploads: bool
    """Whether files come over HTTP, or are written beside the workspace."""
    watches: list[Watch] = field(default_factory=list)
    _since: int = 0

    def furnish(self, files: int, tables: int, completions: int, schedules: int, period_seconds: int) -> None:
        """Make the jobs: so many of each kind."""
        call, layout = self.server.call, Layout(self.server.home)
        self._since = now_ms()
        call("POST", "/local/switches", {"file_events": True})
        call("POST", "/api/2.1/unity-catalog/catalogs", {"name": "main"})
        call("POST", "/api/2.1/unity-catalog/schemas", {"name": "landing", "catalog_name": "main"})
        call("POST", "/api/2.1/unity-catalog/volumes", _volume("files"))
        (layout.workspace_files(WORKSPACE) / "main.py").write_text("# Databricks notebook source\n")
        for place in range(files):
            layout.volume_path(WORKSPACE, folder(place)).mkdir(parents=True)
            self._add(f"files-{place}", "files", trigger={"file_arrival": {"url": folder(place)}})
        for place in range(tables):
            value = f"{{{{job.trigger.table_update.`{table(place)}`.version}}}}"
            self._add(f"tables-{place}", "tables", value, trigger={"table_update": {"table_names": [table(place)]}})
        upstream = [watch for watch in self.watches if watch.kind == "files"]
        workspace_id = call("GET", "/local/info")["workspace_id"]
        for place in range(completions):
            jobs = [{"workspace_id": workspace_id, "job_id": str(upstream[place].job_id)}]
            trigger = {"job_completion": {"jobs": jobs, "if_status": "DONE"}}
            self._add(f"after-{place}", "after", trigger=trigger).after = upstream[place]
        cron = {"quartz_cron_expression": f"0/{period_seconds} * * * * ?", "timezone_id": "UTC"}
        for place in range(schedules):
            watch = self._add(f"timed-{place}", "timed", "{{job.trigger.time.timestamp_ms}}", schedule=cron)
            watch.period_ms = period_seconds * 1000
            watch.set_at = call("GET", "/api/2.2/jobs/get", job_id=watch.job_id)["created_time"]

    def _add(self, name: str, kind: str, value: str = "", **start: Any) -> Watch:
        task = {"task_key": "main", "notebook_task": {"notebook_path": "/main"}}
        # Room for a run too many: it shall be seen, not skipped.
        settings = {"name": name, "tasks": [task], "max_concurrent_runs": 10, "queue": {"enabled": True}, **start}
        parameters = [{"name": "value", "default": value}] if value else []
        made = self.server.call("POST", "/api/2.2/jobs/create", {**settings, "parameters": parameters})
        watch = Watch(name, kind, int(made["job_id"]))
        self.watches.append(watch)
        return watch

    def change(self) -> int:
        """Let come what is due now, for each job whose last change has been answered; how much came."""
        came, busy = 0, {watch.after.name for watch in self.watches if watch.after and not _answered(watch)}
        for watch in self.watches:
            if watch.kind not in ("files", "tables"):
                continue
            if not _answered(watch) or watch.name in busy:
                watch.next_at = 0.0
            elif not watch.next_at:
                watch.next_at = time.monotonic() + self.random.uniform(*self.rest)
            elif time.monotonic() >= watch.next_at:
                watch.next_at, came = 0.0, came + 1
                self._let_come(watch)
        return came

    def _let_come(self, watch: Watch) -> None:
        layout, turn, at = Layout(self.server.home), len(watch.changes), now_ms()
        number = int(watch.name.rpartition("-")[2])
        if watch.kind == "files":
            path = f"{folder(number)}{turn}.json"
            if self.uploads:
                self.server.upload(path, b"{}")
            else:
                _write(layout.volume_path(WORKSPACE, path), "{}")
            watch.changes.append(Change(at))
        else:
            log = layout.table_path(WORKSPACE, table(number)) / "_delta_log"
            _write(log / f"{turn:020d}.json", '{"add":{"path":"a.parquet","dataChange":true}}\n')
            watch.changes.append(Change(at, str(turn)))

    def look(self) -> int:
        """Take in the runs that have started since the last look; how many are new."""
        by_id, new, latest = {watch.job_id: watch for watch in self.watches}, 0, self._since
        for run in self.server.runs(self._since - SEEN_AGAIN_MS):
            watch = by_id[run["job_id"]]
            new += run["run_id"] not in watch.runs
            value = next((item["value"] for item in run["job_parameters"] if item["name"] == "value"), "")
            watch.runs[run["run_id"]] = Fired(run["run_id"], run["start_time"], value)
            if run["status"]["state"] == "TERMINATED":
                watch.ends[run["run_id"]] = run["end_time"]
            latest = max(latest, run["start_time"])
        self._since = latest
        return new

    def look_at_all(self) -> None:
        """Take in every run that there is."""
        self._since = 0
        for watch in self.watches:
            watch.runs.clear()
            watch.ends.clear()
        self.look()

    @property
    def quiet(self) -> bool:
        """Whether everything that came has been answered, and what it started has ended."""
        return all(_answered(watch) and len(watch.ends) == len(watch.runs) for watch in self.watches)

    def settle(self, pause: float) -> None:
        """Until all that came has been answered and has ended, or not in time, which the account tells."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            self.look_at_all()
            if self.quiet:
                return
            time.sleep(pause)

    def account(self, until: int) -> Account:
        """What was due up to now against the runs, schedules up to `until`."""
        account = Account()
        for watch in self.watches:
            runs = list(watch.runs.values())
            if watch.kind == "timed":
                runs = [run for run in runs if int(run.value or 0) <= until]
                account.schedule(watch.name, watch.period_ms, watch.set_at, until, runs, self.server.downs)
            elif watch.after is None:
                account.changes(watch.name, watch.changes, runs)
            else:
                account.changes(watch.name, [Change(at) for at in sorted(watch.after.ends.values())], runs)
        return account


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server, up; and down afterwards."""
    try:
        server.start()
        server.wait()
        yield server
    finally:
        server.stop()


def folder(place: int) -> str:
    return f"/Volumes/main/landing/files/place{place}/"


def table(place: int) -> str:
    return f"main.silver.t{place}"


def now_ms() -> int:
    return int(time.time() * 1000)


def _answered(watch: Watch) -> bool:
    due = len(watch.changes) if watch.after is None else len(watch.after.runs)
    return watch.kind == "timed" or len(watch.runs) >= due


def _volume(name: str) -> Json:
    return {"name": name, "catalog_name": "main", "schema_name": "landing", "volume_type": "MANAGED"}


def _write(file: Path, content: str) -> None:
    """Whole or not at all, as other writers of the same folders do."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}")
    draft.write_text(content)
    draft.rename(file)
