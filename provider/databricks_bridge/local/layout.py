"""Where a local deployment keeps things: one frozen value that turns names into paths."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from databricks_bridge.core.errors import InvalidArgument


class LeadsOutside(InvalidArgument):
    """A link on the way leads out of the folder that the path belongs to: nothing is there for a workspace."""


@dataclass(frozen=True)
class Layout:
    """The folders of one deployment, all below `home`."""

    home: Path

    @property
    def deployment_file(self) -> Path:
        return self.home / "deployment.json"

    @property
    def store_file(self) -> Path:
        return self.home / "store.sqlite"

    @property
    def engine_root(self) -> Path:
        return self.home / "engine"

    @property
    def tls_root(self) -> Path:
        return self.home / "tls"

    def metastore_root(self, metastore: str) -> Path:
        return self.home / "metastores" / metastore

    def volumes_root(self, metastore: str) -> Path:
        return self.home / "volumes" / metastore

    def table_path(self, metastore: str, full_name: str) -> Path:
        """Folder of the table `catalog.schema.table`. Raises InvalidArgument for another number of parts."""
        parts = full_name.split(".")
        if len(parts) != 3 or not all(_plain(part) for part in parts):
            raise InvalidArgument(f"{full_name!r} is not catalog.schema.table")
        return self.metastore_root(metastore).joinpath(*parts)

    def volume_path(self, metastore: str, path: str) -> Path:
        """Folder or file behind `/Volumes/catalog/schema/volume/...`.

        Raises InvalidArgument for any other path, and LeadsOutside.
        """
        parts = PurePosixPath(path.removeprefix("dbfs:")).parts
        if len(parts) < 5 or parts[:2] != ("/", "Volumes") or not all(_plain(part) for part in parts[2:]):
            raise InvalidArgument(f"{path!r} is not /Volumes/catalog/schema/volume/...")
        volume = checked(self.volumes_root(metastore), *parts[2:5])
        return checked(volume, *parts[5:])

    def workspace_files(self, workspace: str) -> Path:
        return self.home / "workspaces" / workspace / "files"

    def run_folder(self, workspace: str, task_run_id: int) -> Path:
        return self.home / "workspaces" / workspace / "runs" / str(task_run_id)


def checked(root: Path, *parts: str) -> Path:
    """The place below `root`. A link may lead from one place below `root` to another; raises LeadsOutside for any other."""
    path = root.joinpath(*parts)
    if not is_inside(path, root):
        raise LeadsOutside(f"{'/'.join(parts)} leads out of {root.name} by a link, so it is not there")
    return path


def is_inside(path: Path, root: Path) -> bool:
    """Whether `path` is `root` or below it, every link on the way followed; what is not there has no link."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _plain(part: str) -> bool:
    return part not in ("", ".", "..") and "/" not in part and "\0" not in part
