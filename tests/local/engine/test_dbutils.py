from __future__ import annotations

from pathlib import Path

import pytest

from databricks_bridge.local.engine.dbutils import DBUtils, InputWidgetNotDefined, NotebookExit
from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.paths import VolumePaths

ROOT = "/Volumes/main/landing/flights"


@pytest.fixture
def dbutils(tmp_path: Path) -> DBUtils:
    (tmp_path / "main" / "landing" / "flights").mkdir(parents=True)
    return DBUtils({"day": "friday", "empty": ""}, VolumePaths(tmp_path))


def test_a_parameter_wins_over_a_default(dbutils: DBUtils) -> None:
    dbutils.widgets.text("day", "monday", "Day")
    dbutils.widgets.dropdown("size", "s", ["s", "m"])
    assert dbutils.widgets.getAll() == {"day": "friday", "empty": "", "size": "s"}
    assert [dbutils.widgets.get(name) for name in ("day", "empty", "size")] == ["friday", "", "s"]


def test_an_unknown_widget_has_databricks_error(dbutils: DBUtils) -> None:
    dbutils.widgets.text("gone", "x")
    dbutils.widgets.remove("gone")
    with pytest.raises(InputWidgetNotDefined, match="No input widget named gone is defined"):
        dbutils.widgets.get("gone")


def test_exit_is_no_exception(dbutils: DBUtils) -> None:
    with pytest.raises(NotebookExit) as raised:
        dbutils.notebook.exit("done")
    assert raised.value.value == "done"
    assert not isinstance(raised.value, Exception)


def test_files_of_a_volume(dbutils: DBUtils) -> None:
    fs = dbutils.fs
    assert fs.put(ROOT + "/a/b.txt", "text")
    with pytest.raises(FileExistsError):
        fs.put(ROOT + "/a/b.txt", "other")
    assert fs.put(ROOT + "/a/b.txt", "newer", overwrite=True)
    assert fs.head("dbfs:" + ROOT + "/a/b.txt", 3) == "new"
    assert [(entry.path, entry.name, entry.size) for entry in fs.ls(ROOT)] == [("dbfs:" + ROOT + "/a/", "a/", 0)]
    assert fs.cp(ROOT + "/a", ROOT + "/c", recurse=True)
    assert fs.mv(ROOT + "/c/b.txt", ROOT + "/d.txt")
    assert [entry.name for entry in fs.ls(ROOT)] == ["a/", "c/", "d.txt"]
    with pytest.raises(OSError, match="not empty"):
        fs.rm(ROOT + "/a")
    assert fs.rm(ROOT + "/a", recurse=True)
    assert not fs.rm(ROOT + "/a")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        fs.ls(ROOT + "/a")


@pytest.mark.parametrize("path", ["/tmp", "dbfs:/FileStore/x", "s3://bucket/x"])
def test_only_volumes_are_served(dbutils: DBUtils, path: str) -> None:
    with pytest.raises(NotServedHere, match=r"serves /Volumes/\.\.\. paths only"):
        dbutils.fs.ls(path)


def test_the_rest_is_refused_by_name(dbutils: DBUtils) -> None:
    with pytest.raises(NotServedHere, match=r"dbutils\.secrets\.get is not served"):
        dbutils.secrets.get("scope", "key")
    with pytest.raises(NotServedHere, match=r"dbutils\.notebook\.run is not served"):
        dbutils.notebook.run("other")


def test_task_values_are_told_and_kept_as_json(tmp_path: Path) -> None:
    values = DBUtils({}, VolumePaths(tmp_path), {"first": {"n": 3, "none": None}}).jobs.taskValues
    assert values.get("first", "n") == values.get(taskKey="first", key="n", default=1) == 3
    assert values.get("first", "none") is None
    assert values.get("first", "other", default="d") == "d"
    with pytest.raises(ValueError, match="No task value with key other was found for task first"):
        values.get("first", "other", debugValue=1)
    values.set("list", (1, 2))
    values.set(key="list", value=[1, 2, 3])
    with pytest.raises(TypeError):
        values.set("bad", {1, 2})
    with pytest.raises(ValueError, match="longer than 49152 bytes"):
        values.set("long", "x" * 49_152)
    assert values.own == {"list": [1, 2, 3]}
