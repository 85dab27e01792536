"""One listing of a log, sorted out: which versions it proves, and whether a reader could build the newest one."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass, field

from databricks_bridge.delta.files import Listed
from databricks_bridge.delta.names import CheckpointPart, Checksum, ClassicCheckpoint, Commit, V2Checkpoint


@dataclass
class Segment:
    """The files of a log from one version on.

    `commits` have content; `being_written` are commits of no bytes yet, or found not to be whole. `checkpoints` are complete
    ones, with their parts in order; a multi-part checkpoint that lacks a part is left out.
    """

    commits: dict[int, Listed] = field(default_factory=dict)
    being_written: dict[int, Listed] = field(default_factory=dict)
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

    def base(self, version: int) -> int | None:
        """The newest complete checkpoint at or before `version`."""
        return max((one for one in self.checkpoints if one <= version), default=None)

    def builds(self, version: int, *, from_start: bool) -> bool:
        """Whether the files that are listed are enough to build the table as of `version`."""
        base = self.base(version)
        if base is None and not from_start:
            return False
        return all(one in self.commits for one in range(0 if base is None else base + 1, version + 1))


class Sorter:
    """Sorts a listing out file by file, whatever its order."""

    def __init__(self) -> None:
        self.found = Segment()
        self.count = 0
        self._whole: dict[int, list[Listed]] = {}
        self._parts: dict[tuple[int, int], dict[int, Listed]] = {}

    def add(self, listed: Listed) -> None:
        self.count += 1
        match listed.file:
            case Commit(version) if listed.size:
                self.found.commits[version] = listed
            case Commit(version):
                self.found.being_written[version] = listed
            case Checksum(version):
                self.found.checksums.add(version)
            case ClassicCheckpoint(version) | V2Checkpoint(version) if listed.size:
                self._whole.setdefault(version, []).append(listed)
            case CheckpointPart(version, part, count) if listed.size:
                self._parts.setdefault((version, count), {})[part] = listed

    def segment(self) -> Segment:
        """What was sorted so far."""
        found = self.found
        for (version, count), have in sorted(self._parts.items()):
            if have.keys() == set(range(1, count + 1)):
                found.checkpoints[version] = [have[part] for part in sorted(have)]
        for version, several in self._whole.items():
            # several are equal by the protocol; the first by name, so that every call takes the same one
            found.checkpoints[version] = [min(several, key=lambda listed: listed.path)]
        return found


async def collect(files: AsyncIterable[Listed]) -> Segment:
    """Sorts a whole listing out."""
    sorter = Sorter()
    async for listed in files:
        sorter.add(listed)
    return sorter.segment()


async def collect_at_most(files: AsyncIterable[Listed], most: int) -> Segment | None:
    """As `collect`, but None, and no more is listed, where there are more files than this."""
    sorter = Sorter()
    async for listed in files:
        if sorter.count >= most:
            return None
        sorter.add(listed)
    return sorter.segment()


async def collect_commits(files: AsyncIterable[Listed], first: int, last: int) -> Segment:
    """Lists until all commits from `first` to `last` are found, both inclusive; to the end where one is not."""
    sorter, wanted = Sorter(), last - first + 1
    async for listed in files:
        sorter.add(listed)
        match listed.file:
            case Commit(version) if first <= version <= last:
                wanted -= 1
                if not wanted:
                    break
    return sorter.segment()


async def collect_to_build(files: AsyncIterable[Listed], version: int, *, from_start: bool) -> Segment:
    """Lists until what was found is enough to build `version`; to the end where it is not.

    What is found later cannot take it back, so this is right in any order; where a store lists in the order of names, it
    lists no further than it needs.
    """
    sorter = Sorter()
    async for listed in files:
        sorter.add(listed)
        if listed.file == Commit(version + 1) and sorter.segment().builds(version, from_start=from_start):
            break
    return sorter.segment()
