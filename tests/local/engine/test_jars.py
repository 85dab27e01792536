from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from databricks_bridge.local.engine import jars


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"DATABRICKS_BRIDGE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/databricks-bridge")),
        ({}, Path.home() / ".cache" / "databricks-bridge"),
    ],
)
def test_where_the_cache_is(environ: dict[str, str], folder: Path) -> None:
    assert jars.cache_folder(environ) == folder


def test_a_spark_process_gets_our_java_and_no_other_sparks_settings() -> None:
    java = jars.JavaHome(Path("/j"), 17)
    environ = jars.spark_environment(java, {"SPARK_CONF_DIR": "/x", "PYSPARK_SUBMIT_ARGS": "--bad", "PATH": "/bin"})
    assert environ == {
        "PATH": "/bin",
        "JAVA_HOME": "/j",
        "SPARK_HOME": str(jars.spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_USER": "local-workspace",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache whose two jars are the known ones."""
    kept = folder / f"delta-spark-{jars.DELTA_VERSION}-spark-{version('pyspark')}"
    kept.mkdir()
    lines = []
    for name in ("a.jar", "b.jar"):
        (kept / name).write_bytes(name.encode())
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (folder / "known").write_text("".join(lines))
    monkeypatch.setattr(jars, "CHECKSUMS", folder / "known")
    return kept


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda kept: (kept / "a.jar").write_bytes(b"other"), "a.jar has the SHA-256 d9298a10"),
        (lambda kept: (kept / "a.jar").unlink(), "a.jar is missing"),
        (lambda kept: (kept / "c.jar").write_bytes(b"c"), "c.jar is not one of Delta"),
        (lambda kept: (kept / "b.jar").write_bytes(b""), "b.jar has the SHA-256 e3b0c442"),
    ],
)
def test_a_jar_that_is_not_the_known_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object], said: str
) -> None:
    kept = checked(tmp_path, monkeypatch)
    assert jars.verify(kept) == (kept / "a.jar", kept / "b.jar")
    spoil(kept)
    with pytest.raises(jars.JarsUnavailable, match=said) as refused:
        jars.prepare(print, cache=tmp_path)
    assert f"in {kept} are not those" in str(refused.value)


def test_what_was_fetched_is_kept_only_when_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = checked(tmp_path, monkeypatch)
    fetched = tmp_path / "fetched"
    kept.rename(fetched)
    (fetched / "a.jar").write_bytes(b"other")
    monkeypatch.setattr(jars, "_fetch", lambda scratch, java: fetched)
    with pytest.raises(jars.JarsUnavailable, match=r"a\.jar has the SHA-256"):
        jars.prepare(lambda line: None, cache=tmp_path)
    assert not kept.exists()


def test_the_checksums_are_of_the_version_that_is_fetched() -> None:
    names = [line.split()[1] for line in jars.CHECKSUMS.read_text().splitlines()]
    assert f"io.delta_delta-spark_4.2_2.13-{jars.DELTA_VERSION}.jar" in names
    assert {name for name in names if name.startswith("io.delta_delta-kernel-api")} == {
        f"io.delta_delta-kernel-api-{jars.DELTA_VERSION}.jar"
    }


@pytest.mark.spark
def test_prepared_jars_are_whole_and_made_once() -> None:
    first = jars.prepare(print)
    said: list[str] = []
    assert jars.prepare(said.append) == first
    assert said == []
    own, *delta = first
    names = zipfile.ZipFile(own).namelist()
    assert "databricks_bridge/local/DirectoryCatalog.class" in names
    assert any(jar.name == f"io.delta_delta-spark_4.2_2.13-{jars.DELTA_VERSION}.jar" for jar in delta)
    assert not any("hadoop-client" in jar.name or "log4j" in jar.name for jar in delta)


@pytest.mark.spark
def test_two_processes_compile_once(tmp_path: Path) -> None:
    prepared = jars.prepare(print)
    # Delta's jars are there; only our own is missing.
    (tmp_path / prepared[1].parent.name).symlink_to(prepared[1].parent)
    command = [sys.executable, "-m", "databricks_bridge.local.engine.jars"]
    environ = {"DATABRICKS_BRIDGE_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    both = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("Compiling" in text for text in said) == 1
    assert all(f"{len(prepared)} jars are ready in {tmp_path}" in text for text in said)
    assert not list(tmp_path.glob("compiling-*"))


def test_without_java_the_command_says_what_to_install(tmp_path: Path) -> None:
    environ = {"DATABRICKS_BRIDGE_CACHE": str(tmp_path / "cache"), "JAVA_HOME": str(tmp_path / "none"), "PATH": "/bin"}
    command = [sys.executable, "-m", "databricks_bridge.local.engine.jars"]
    answer = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"JAVA_HOME is {tmp_path / 'none'}, where bin/java does not run.")
    assert answer.stderr.count("\n") == 1
