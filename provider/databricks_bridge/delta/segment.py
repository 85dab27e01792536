"""One listing of a log, sorted out: which versions it proves, and whether a reader could build the newest one."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass, field

from databricks_bridge.delta.files import Listed
from databricks_bridge.delta.names import CheckpointPart, Checksum, ClassicCheckpoint, Commit, V2Checkpoint


@dataclass
class Segment:
    """The files of a log from one version on.

    `commits` have content; `being_written` are commits of no bytes yet. `checkpoints` are complete ones, with
    their parts in order; a multi-part checkpoint that lacks a part is left out.
    """

    commits: dict[int, Listed] = field(default_factory=dict)
    being_written: set[int] = field(default_factory=set)
    checkpoints: dict[int, list[Listed]] = field(default_factory=dict)
    checksums: set[int] = field(default_factory=set)

    @property
    def latest(self) -> int | None:
        """The newest version that a commit or a complete checkpoint proves."""
        return max([*self.commits, *self.checkpoints], default=None)

    def missing(self, start: int) -> tuple[int, int] | None:
        """The first gap, both ends inclusive, between the newest point to build on and the newest version.

        To build on: the newest complete checkpoint, else `start`, a version that is known to be readable (-1:
        the empty table before version 0). None when there is no gap.
        """
        latest = self.latest
        if latest is None:
            return None
        at = max([start, *self.checkpoints]) + 1
        while at <= latest and (at in self.commits or at in self.being_written):
            at += 1
        if at > latest:
            return None
        return at, min(version for version in self.commits if version > at) - 1


async def collect(files: AsyncIterable[Listed]) -> Segment:
    """Sorts a listing out, whatever its order."""
    found = Segment()
    whole: dict[int, list[Listed]] = {}
    parts: dict[tuple[int, int], dict[int, Listed]] = {}
    async for listed in files:
        match listed.file:
            case Commit(version) if listed.size:
                found.commits[version] = listed
            case Commit(version):
                found.being_written.add(version)
            case Checksum(version):
                found.checksums.add(version)
            case ClassicCheckpoint(version) | V2Checkpoint(version) if listed.size:
                whole.setdefault(version, []).append(listed)
            case CheckpointPart(version, part, count) if listed.size:
                parts.setdefault((version, count), {})[part] = listed
    for (version, count), have in sorted(parts.items()):
        if have.keys() == set(range(1, count + 1)):
            found.checkpoints[version] = [have[part] for part in sorted(have)]
    for version, several in whole.items():
        # several are equal by the protocol; the first by name, so that every call takes the same one
        found.checkpoints[version] = [min(several, key=lambda listed: listed.path)]
    return found
