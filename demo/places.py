"""Where the demo keeps things, and the names in its story."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# One metastore each: the workspaces share nothing.
WORKSPACES = ("ops", "met", "analytics")
GOLD_JOB = "delays-by-weather"
AUDIT_JOB = "bronze-audit"
BRONZE_AND_SILVER = {"ops": ("bronze-flights", "silver-flights"), "met": ("bronze-weather", "silver-weather")}
GOLD_DAG, GOLD_TASK = "delays_by_weather", "build_gold"
AUDIT_DAG = "after_bronze"


class DemoFailed(Exception):
    """The demo cannot go on. The message says what happened and where to look."""


@dataclass(frozen=True)
class Places:
    """The folders and files of one demo, all below `home`."""

    home: Path = ROOT / ".demo"

    @property
    def local(self) -> Path:
        return self.home / "local"

    @property
    def deployment(self) -> Path:
        """Written by the local deployment when it is ready. Holds tokens."""
        return self.local / "deployment.json"

    @property
    def airflow(self) -> Path:
        return self.home / "airflow"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def processes(self) -> Path:
        return self.home / "processes.json"

    @property
    def lock(self) -> Path:
        """Held while a demo is being told in this folder."""
        return self.home / "lock"

    @property
    def story(self) -> Path:
        """What the proof cannot see elsewhere: the task that was killed, the run that new data overtook."""
        return self.home / "story.json"

    def volume(self, metastore: str, path: str) -> Path:
        """The folder behind /Volumes/catalog/schema/volume."""
        return self.local.joinpath("volumes", metastore, *path.split("/")[2:])

    def table(self, metastore: str, full_name: str) -> Path:
        return self.local.joinpath("metastores", metastore, *full_name.split("."))


def free_port() -> int:
    """A port on loopback that nobody listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
