"""Where a local deployment keeps things: one frozen value that turns names into paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from databricks_bridge.core.errors import InvalidArgument


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
        """Folder or file behind `/Volumes/catalog/schema/volume/...`. Raises InvalidArgument for any other path."""
        parts = PurePosixPath(path.removeprefix("dbfs:")).parts
        if len(parts) < 5 or parts[:2] != ("/", "Volumes") or not all(_plain(part) for part in parts[2:]):
            raise InvalidArgument(f"{path!r} is not /Volumes/catalog/schema/volume/...")
        return self.volumes_root(metastore).joinpath(*parts[2:])

    def workspace_files(self, workspace: str) -> Path:
        return self.home / "workspaces" / workspace / "files"

    def run_folder(self, workspace: str, task_run_id: int) -> Path:
        return self.home / "workspaces" / workspace / "runs" / str(task_run_id)


def _plain(part: str) -> bool:
    return part not in ("", ".", "..") and "/" not in part and "\0" not in part
