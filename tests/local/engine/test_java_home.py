from __future__ import annotations

from pathlib import Path

import pytest

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.engine.java_home import JavaHome, NoJava, find_compiler, find_java


def java(home: Path, version: str, *, compiler: bool = False) -> Path:
    """A folder with a `java` that says its version as the real one does, on standard error."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    if compiler:
        (home / "bin" / "javac").touch()
    return home


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    folder = tmp_path / "jvm"
    folder.mkdir()
    return folder


def test_java_home_comes_before_path_and_path_before_installed(tmp_path: Path, installed: Path) -> None:
    chosen, on_path = java(tmp_path / "chosen", "21.0.1"), java(tmp_path / "on_path", "25")
    java(installed / "java-17", "17.0.15")
    environ = {"JAVA_HOME": str(chosen), "PATH": str(on_path / "bin")}
    assert find_java(environ, installed=installed) == JavaHome(chosen, 21)
    assert find_java({"PATH": environ["PATH"]}, installed=installed) == JavaHome(on_path, 25)
    assert find_java({}, installed=installed) == JavaHome(installed / "java-17", 17)


def test_an_old_java_on_path_is_passed_over(tmp_path: Path, installed: Path) -> None:
    old = java(tmp_path / "old", "1.8.0_402")
    java(installed / "java-11", "11.0.2")
    java(installed / "java-17", "17")
    assert find_java({"PATH": str(old / "bin")}, installed=installed) == JavaHome(installed / "java-17", 17)


def test_none_at_all_says_what_to_install(installed: Path) -> None:
    with pytest.raises(NoJava) as raised:
        find_java({"PATH": ""}, installed=installed)
    assert str(raised.value) == (
        "Java 17 or newer is needed to run Spark. Install it: "
        "apt-get install openjdk-17-jdk-headless (on newer Debian: default-jdk-headless)"
    )
    assert isinstance(raised.value, BridgeError)


def test_only_old_ones_are_named(installed: Path) -> None:
    java(installed / "java-8", "1.8.0_402")
    with pytest.raises(NoJava, match=r"found only Java 8 in .*java-8\. Install it: apt-get"):
        find_java({}, installed=installed)


@pytest.mark.parametrize("version", [None, "11.0.2"])
def test_a_java_home_that_cannot_be_used_is_an_error_and_not_passed_over(
    tmp_path: Path, installed: Path, version: str | None
) -> None:
    java(installed / "java-17", "17")
    chosen = java(tmp_path / "chosen", version) if version else tmp_path / "nothing"
    with pytest.raises(NoJava, match=f"JAVA_HOME is {chosen}"):
        find_java({"JAVA_HOME": str(chosen)}, installed=installed)


def test_the_compiler_may_be_in_another_java(installed: Path) -> None:
    jre = JavaHome(java(installed / "a-jre", "17"), 17)
    with pytest.raises(NoJava, match=r"has no javac: a JDK is needed once, at set-up\. Install it: apt-get"):
        find_compiler(jre, {}, installed=installed)
    jdk = java(installed / "b-jdk", "21", compiler=True)
    assert find_compiler(jre, {}, installed=installed) == jdk / "bin" / "javac"
