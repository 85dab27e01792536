"""Reported faults of other catalogs, tried on this one. Each is named by its case."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from databricks_bridge.core.errors import NotFound
from databricks_bridge.delta.resolve import open_table
from databricks_bridge.local.deployment import Deployment
from databricks_bridge.workspace.client import Workspace

FLIGHTS = "main.silver.flights"
# It ends as Airflow's task processes do: while Python shuts down, obstore's threads may abort it (pyo3-async-runtimes 40).
ELSEWHERE = """
import asyncio, os, sys
from databricks_bridge.delta.resolve import open_table
async def version():
    return (await (await open_table(None, sys.argv[1])).latest()).version
print(asyncio.run(version()), flush=True)
os._exit(0)
"""
LOCATIONS = ["file:/x", "file:///x", "/x", "s3://b/x", "abfss://c@a/x", "dbfs:/x", "/Volumes/c/s/v/x", "x/y", "C:\\x"]


@pytest.fixture
def table(deployment: Deployment, ops: Any) -> Path:
    """A table of three commits."""
    from deltalake import write_deltalake

    ops.catalogs.create("main")
    ops.schemas.create("silver", "main")
    path = deployment.layout.table_path("ops", FLIGHTS)
    for n in range(3):
        write_deltalake(str(path), pa.table({"n": [n]}), mode="append")
    return path


class MountedElsewhere(Workspace):
    """A client for which the catalog's folders are at another path, as in another container."""

    moved: tuple[str, str] = ("", "")

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        def seen_from_here(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: seen_from_here(one) for key, one in value.items()}
            if isinstance(value, list):
                return [seen_from_here(one) for one in value]
            return value.replace(*self.moved) if isinstance(value, str) else value

        return dict(seen_from_here(await super().get(path, params)))


def client(deployment: Deployment) -> MountedElsewhere:
    async def authorize() -> dict[str, str]:
        return {"Authorization": f"Bearer {deployment.token('ops')}"}

    return MountedElsewhere(deployment.host("ops"), authorize)


def state(folder: Path) -> dict[Path, tuple[int, int]]:
    """Of all below a folder, and itself: a file that came and went shows in the time of its folder."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (folder, *folder.rglob("*"))}


def version(deployment: Deployment, seen: str = "", here: str = "") -> int | None:
    """What a client finds for which the text `seen` in the catalog's answers is `here`."""

    async def look() -> int | None:
        async with client(deployment) as workspace:
            workspace.moved = (seen, here) if seen else workspace.moved
            found = await (await open_table(workspace, FLIGHTS)).latest()
            return None if found is None else found.version

    return asyncio.run(look())


def test_F01_every_reader_finds_the_same_version_or_is_told_which_path_it_lacks(
    deployment: Deployment, ops: Any, table: Path, tmp_path: Path
) -> None:
    home, location = str(deployment.layout.home), ops.tables.get(FLIGHTS).storage_location
    (tmp_path / "mount").symlink_to(deployment.layout.home)  # the same disk under another name
    before = state(table)
    elsewhere = subprocess.run([sys.executable, "-c", ELSEWHERE, location], cwd="/", capture_output=True, text=True)
    assert elsewhere.returncode == 0, elsewhere.stderr
    found = {
        "as it is": version(deployment),
        "slashes at the end": version(deployment, location, f"{location}//"),
        "mounted elsewhere": version(deployment, home, str(tmp_path / "mount")),
        "another process": int(elsewhere.stdout),
    }
    assert set(found.values()) == {2}, found
    with pytest.raises(NotFound) as missing:
        version(deployment, home, str(tmp_path / "not-mounted"))
    lacking = str(tmp_path / "not-mounted" / table.relative_to(home))
    assert f"the folder {lacking} does not exist" in str(missing.value)
    assert f"as {deployment.host('ops')} says it, right, and is the disk mounted here?" in str(missing.value)
    assert state(table) == before, "a reader has written, which a read-only mount would not let it"


def test_F02_a_location_is_refused_and_never_joined_with_the_working_directory(
    deployment: Deployment, ops: Any, table: Path
) -> None:
    headers = {"Authorization": f"Bearer {deployment.token('ops')}"}
    base = f"{deployment.host('ops')}/api/2.1/unity-catalog"
    root = deployment.layout.home
    before = sorted(root.rglob("*"))
    for location in LOCATIONS:
        body = {"catalog_name": "main", "schema_name": "silver", "name": "theirs", "storage_location": location}
        for path, more, status in (
            ("tables", {"table_type": "EXTERNAL", "data_source_format": "DELTA", "columns": []}, 404),
            ("volumes", {"volume_type": "EXTERNAL"}, 400),
        ):
            answer = httpx.post(f"{base}/{path}", json={**body, **more}, headers=headers)
            assert answer.status_code == status, (location, answer.text)
    assert sorted(root.rglob("*")) == before
    assert ops.tables.get(FLIGHTS).storage_location == table.absolute().as_uri()
