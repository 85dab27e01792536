"""Where set-up keeps things: one frozen value, all below the repository."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    root: Path

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def lock(self) -> Path:
        return self.root / "requirements.lock"

    @property
    def project(self) -> Path:
        return self.root / "pyproject.toml"

    @property
    def package(self) -> Path:
        return self.root / "provider" / "databricks_bridge"

    @property
    def work(self) -> Path:
        """Logs, the lock against a second set-up, and what `make` sources before it runs anything."""
        return self.root / ".cache" / "setup"

    @property
    def environment(self) -> Path:
        return self.work / "env.sh"

    @property
    def engine_cache(self) -> Path:
        """The folder that `DATABRICKS_BRIDGE_CACHE` names: Delta's jars and the compiled catalog."""
        return self.root / ".cache" / "databricks-bridge"


def here() -> Places:
    return Places(Path(__file__).resolve().parents[2])
