"""What the engine refuses, and what a notebook sees of it."""

from __future__ import annotations

from databricks_bridge.core.errors import BridgeError


class EngineError(BridgeError):
    """The engine cannot start, or has ended."""


class NotServedHere(BridgeError):
    """The notebook asks for something that Databricks has and the local workspace lacks."""


class VolumeNotFound(BridgeError, FileNotFoundError):
    """A path names a volume that does not exist. A FileNotFoundError too, so that `os.path.exists` is False."""
