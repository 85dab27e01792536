"""What is said of a workspace before it is hosted."""

from __future__ import annotations

from dataclasses import dataclass

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class WorkspaceSpec:
    """A workspace to host. `metastore` is its own name unless it shares another's; port 0 is any free port.

    `address` is an IPv4 address of this machine's loopback, 127.0.0.0/8.
    """

    name: str
    metastore: str | None = None
    port: int = 0
    address: str = ADDRESS
