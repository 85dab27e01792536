"""Files in volumes, with the official SDK as client."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment

ROOT = "/Volumes/main/landing/flights"


@pytest.fixture
def files(ops: Any) -> Any:
    from databricks.sdk.service.catalog import VolumeType

    ops.catalogs.create("main")
    ops.schemas.create("landing", "main")
    ops.volumes.create("main", "landing", "flights", VolumeType.MANAGED)
    return ops.files


def test_what_goes_up_comes_down(files: Any, deployment: Deployment) -> None:
    content = bytes(range(256)) * 5000
    files.upload(f"{ROOT}/day=2026-03-01/a b%.bin", io.BytesIO(content))
    assert files.download(f"{ROOT}/day=2026-03-01/a b%.bin").contents.read() == content
    known = files.get_metadata(f"{ROOT}/day=2026-03-01/a b%.bin")
    assert known.content_length == len(content)
    assert deployment.layout.volume_path("ops", f"{ROOT}/day=2026-03-01/a b%.bin").read_bytes() == content
    files.upload(f"{ROOT}/empty", io.BytesIO(b""))
    assert files.download(f"{ROOT}/empty").contents.read() == b""


def test_overwriting_is_the_default_and_can_be_refused(files: Any) -> None:
    from databricks.sdk.errors import AlreadyExists

    files.upload(f"{ROOT}/a", io.BytesIO(b"1"))
    files.upload(f"{ROOT}/a", io.BytesIO(b"2"))
    with pytest.raises(AlreadyExists):
        files.upload(f"{ROOT}/a", io.BytesIO(b"3"), overwrite=False)
    assert files.download(f"{ROOT}/a").contents.read() == b"2"


def test_directories(files: Any) -> None:
    from databricks.sdk.errors import BadRequest, NotFound

    files.create_directory(f"{ROOT}/x/y")
    files.create_directory(f"{ROOT}/x/y")
    files.get_directory_metadata(f"{ROOT}/x/y")
    files.upload(f"{ROOT}/x/file", io.BytesIO(b"123"))
    listed = list(files.list_directory_contents(f"{ROOT}/x"))
    assert [(entry.name, entry.is_directory, entry.file_size) for entry in listed] == [
        ("file", False, 3),
        ("y", True, None),
    ]
    assert listed[0].path == f"{ROOT}/x/file"
    assert [entry.name for entry in files.list_directory_contents(f"{ROOT}/x", page_size=1)] == ["file", "y"]
    with pytest.raises(BadRequest, match="not empty"):
        files.delete_directory(f"{ROOT}/x")
    files.delete(f"{ROOT}/x/file")
    files.delete_directory(f"{ROOT}/x/y")
    files.delete_directory(f"{ROOT}/x")
    with pytest.raises(NotFound):
        list(files.list_directory_contents(f"{ROOT}/x"))
    with pytest.raises(NotFound):
        files.get_directory_metadata(f"{ROOT}/x")


def test_what_is_not_there(files: Any) -> None:
    from databricks.sdk.errors import InvalidParameterValue, NotFound

    with pytest.raises(NotFound, match=r"Volume 'main\.landing\.none' does not exist"):
        files.upload("/Volumes/main/landing/none/a", io.BytesIO(b"1"))
    with pytest.raises(NotFound):
        files.download(f"{ROOT}/none")
    with pytest.raises(NotFound):
        files.get_metadata(f"{ROOT}/none")
    with pytest.raises(NotFound):
        files.delete(f"{ROOT}/none")
    with pytest.raises(InvalidParameterValue, match="not a path in a volume"):
        files.upload("/Volumes/main/landing", io.BytesIO(b"1"))
    with pytest.raises(InvalidParameterValue, match="not a path in a volume"):
        files.upload(f"{ROOT}/../../../../out", io.BytesIO(b"1"))


def test_nobody_sees_half_a_file(files: Any, deployment: Deployment) -> None:
    """A slow upload shows no name until it is whole; one that breaks off leaves nothing."""
    import requests

    folder = deployment.layout.volume_path("ops", ROOT)
    halfway, go_on = threading.Event(), threading.Event()

    def body(breaks: bool) -> Any:
        yield b"first half "
        halfway.set()
        assert go_on.wait(20)
        if breaks:
            raise OSError("the uploader is gone")
        yield b"second half"

    def visible() -> list[str]:
        return [path.name for path in folder.iterdir() if not path.name.startswith(".")]

    def upload(name: str, breaks: bool) -> None:
        try:
            requests.put(
                f"{deployment.host('ops')}/api/2.0/fs/files{ROOT}/{name}",
                data=body(breaks),
                headers={"Authorization": f"Bearer {deployment.token('ops')}"},
                timeout=30,
            )
        except (OSError, requests.RequestException):
            assert breaks

    for name, breaks, expected in (("whole", False, ["whole"]), ("broken", True, ["whole"])):
        before = visible()
        halfway.clear()
        go_on.clear()
        uploader = threading.Thread(target=upload, args=(name, breaks))
        uploader.start()
        assert halfway.wait(20)
        assert visible() == before
        assert [entry.name for entry in files.list_directory_contents(ROOT)] == before
        go_on.set()
        uploader.join(30)
        assert visible() == expected
    assert (folder / "whole").read_bytes() == b"first half second half"
    deadline_empty(folder)


def deadline_empty(folder: Path) -> None:
    from tests.local.local_kit import eventually

    eventually(lambda: [path.name for path in folder.iterdir()] == ["whole"])
