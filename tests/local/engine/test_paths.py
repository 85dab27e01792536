from __future__ import annotations

import os
from pathlib import Path

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.engine.errors import VolumeNotFound
from databricks_bridge.local.engine.paths import VolumePaths


@pytest.fixture
def volumes(tmp_path: Path) -> VolumePaths:
    (tmp_path / "main" / "landing" / "flights").mkdir(parents=True)
    return VolumePaths(tmp_path)


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/Volumes/main/landing/flights", ""),
        ("/Volumes/main/landing/flights/", "/"),
        ("dbfs:/Volumes/main/landing/flights/a/b.json", "/a/b.json"),
        ("/Volumes/main/landing/flights/*/x=[12]", "/*/x=[12]"),
    ],
)
def test_a_volume_path_becomes_a_local_one(volumes: VolumePaths, path: str, below: str) -> None:
    local = f"{volumes.root}/main/landing/flights{below}"
    assert volumes.local(path) == local
    assert volumes.translated([path, Path("/elsewhere"), 3]) == [local, Path("/elsewhere"), 3]


@pytest.mark.parametrize(
    "value", ["/Volumes2/x", "/data/Volumes/a/b/c", "s3://b/Volumes/a/b/c", "main.a.b", b"/Volumes/x", 1]
)
def test_what_is_no_volume_path_is_left_alone(volumes: VolumePaths, value: object) -> None:
    assert volumes.translated(value) == value


@pytest.mark.parametrize("path", ["/Volumes", "/Volumes/main/landing", "/Volumes/main/landing/flights/../../x"])
def test_a_path_without_a_volume_or_out_of_it_is_refused(volumes: VolumePaths, path: str) -> None:
    with pytest.raises(InvalidArgument, match="is not /Volumes/<catalog>/<schema>/<volume>/"):
        volumes.local(path)


def test_a_missing_volume_is_named_and_is_a_missing_file(volumes: VolumePaths) -> None:
    with pytest.raises(VolumeNotFound, match=r"volume main\.landing\.other does not exist") as raised:
        volumes.local("/Volumes/main/landing/other/x")
    assert isinstance(raised.value, FileNotFoundError)


def test_sql_translates_files_named_as_tables_and_nothing_else(volumes: VolumePaths) -> None:
    statement = "SELECT '/Volumes/main/landing/flights' FROM json.`/Volumes/main/landing/flights/a` JOIN b.`c`"
    assert volumes.translated_sql(statement) == (
        f"SELECT '/Volumes/main/landing/flights' FROM json.`{volumes.root}/main/landing/flights/a` JOIN b.`c`"
    )


def test_the_way_back(volumes: VolumePaths) -> None:
    path = "/Volumes/main/landing/flights/a.json"
    assert volumes.volume_path(volumes.local(path)) == path
    assert volumes.volume_path("file:" + volumes.local(path)) == path
    assert volumes.volume_path(os.sep + "elsewhere") == "/elsewhere"
