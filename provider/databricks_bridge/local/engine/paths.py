"""Where `/Volumes/...` is on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine.errors import NotServedHere, VolumeNotFound
from databricks_bridge.local.refusals import Area, words

_PREFIX = re.compile(r"^(?:dbfs:)?(?=/Volumes(?:/|$))")
# A file named as a table: json.`/Volumes/...`. No other string of a statement is a path for certain.
_SQL_FILE = re.compile(r"(\b\w+\.)`((?:dbfs:)?/Volumes/[^`]*)`")
_CLOUD = re.compile(r"^(s3[an]?|abfss?|wasbs?|gs|adl|r2|dbfs)://?(?!/*Volumes(?:/|$))", re.IGNORECASE)


def cloud_scheme(path: object) -> str | None:
    """`s3` of `s3://bucket/...`, and the like; None for a path that is in no cloud. `dbfs:/Volumes/...` is a volume's."""
    found = _CLOUD.match(path) if isinstance(path, str) else None
    return None if found is None else found[1].lower()


@dataclass(frozen=True)
class VolumePaths:
    """Translates `/Volumes/<catalog>/<schema>/<volume>/...`, with or without `dbfs:` before it, to a folder below `root`."""

    root: Path

    def is_volume_path(self, path: object) -> bool:
        return isinstance(path, str | Path | PurePosixPath) and _PREFIX.match(str(path)) is not None

    def local(self, path: str) -> str:
        """The local path behind a volume path. A final slash is kept.

        Raises VolumeNotFound when the volume does not exist, InvalidArgument when the path does not name one or leaves it.
        """
        bare = _PREFIX.sub("", path)
        parts = PurePosixPath(bare).parts[2:]
        if len(parts) < 3 or ".." in parts:
            raise InvalidArgument(f"{path!r} is not /Volumes/<catalog>/<schema>/<volume>/...")
        volume = ".".join(parts[:3])
        if not self.root.joinpath(*parts[:3]).is_dir():
            raise VolumeNotFound(f"{path}: volume {volume} does not exist. Create it: CREATE VOLUME {volume}")
        return str(self.root.joinpath(*parts)) + ("/" if bare.endswith("/") else "")

    def volume_path(self, local: str) -> str:
        """The `/Volumes/...` path of a local one; another path is given back as it is."""
        try:
            return f"/Volumes/{Path(local.removeprefix('file:')).relative_to(self.root).as_posix()}"
        except ValueError:
            return local

    def translated(self, value: Any) -> Any:
        """`value` with volume paths made local: a string, a path, or a list or tuple of them. Others are left alone."""
        if isinstance(value, list):
            return [self.translated(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self.translated(item) for item in value)
        return self.local(str(value)) if self.is_volume_path(value) else value

    def translated_for_spark(self, value: Any) -> Any:
        """As `translated`. Raises NotServedHere for a path in a cloud, of which Spark would say more and tell less."""
        for one in value if isinstance(value, list | tuple) else [value]:
            if cloud_scheme(one):
                raise NotServedHere(f"{one}: {words(Area.SQL, 'cloud paths')}")
        return self.translated(value)

    def translated_sql(self, statement: str) -> str:
        """The statement with files that are named as tables made local."""
        return _SQL_FILE.sub(lambda found: f"{found[1]}`{self.local(found[2])}`", statement)
