"""Which Java runs Spark."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from databricks_bridge.core.errors import BridgeError

OLDEST_JAVA = 17
INSTALL_HINT = "apt-get install openjdk-17-jdk-headless (on newer Debian: default-jdk-headless)"


class NoJava(BridgeError):
    """No Java that can run Spark, or no compiler beside it, was found."""


@dataclass(frozen=True)
class JavaHome:
    """A Java installation: its folder (the one that holds `bin/java`) and its major version."""

    path: Path
    version: int

    @property
    def java(self) -> Path:
        return self.path / "bin" / "java"

    @property
    def javac(self) -> Path:
        """The compiler; it exists in a JDK and not in a JRE."""
        return self.path / "bin" / "javac"


def find_java(environ: Mapping[str, str], *, installed: Path = Path("/usr/lib/jvm")) -> JavaHome:
    """The first Java of version 17 or newer: JAVA_HOME, then `java` on PATH, then the folders in `installed`.

    Raises NoJava when JAVA_HOME is set and cannot be used, or when there is none anywhere.
    """
    if environ.get("JAVA_HOME"):
        return _named_by_the_user(Path(environ["JAVA_HOME"]))
    found = list(_java_homes(environ, installed))
    for home in found:
        if home.version >= OLDEST_JAVA:
            return home
    seen = "; found only " + ", ".join(f"Java {home.version} in {home.path}" for home in found) if found else ""
    raise NoJava(f"Java {OLDEST_JAVA} or newer is needed to run Spark{seen}. Install it: {INSTALL_HINT}")


def find_compiler(java: JavaHome, environ: Mapping[str, str], *, installed: Path = Path("/usr/lib/jvm")) -> Path:
    """`javac` of `java`, else of another Java 17 or newer on this machine. Raises NoJava when there is none."""
    for home in (java, *_java_homes(environ, installed)):
        if home.version >= OLDEST_JAVA and home.javac.is_file():
            return home.javac
    raise NoJava(f"{java.path} has no javac: a JDK is needed once, at set-up. Install it: {INSTALL_HINT}")


def _named_by_the_user(path: Path) -> JavaHome:
    version = _major_version(path)
    if version is None:
        raise NoJava(f"JAVA_HOME is {path}, where bin/java does not run. Unset it, or install Java: {INSTALL_HINT}")
    if version < OLDEST_JAVA:
        raise NoJava(f"JAVA_HOME is {path}, Java {version}; Java {OLDEST_JAVA} or newer is needed: {INSTALL_HINT}")
    return JavaHome(path, version)


def _java_homes(environ: Mapping[str, str], installed: Path) -> Iterator[JavaHome]:
    on_path = which("java", path=environ.get("PATH", ""))
    candidates = [Path(on_path).resolve().parent.parent] if on_path else []
    candidates += sorted(folder for folder in installed.glob("*") if not folder.is_symlink())
    for path in candidates:
        version = _major_version(path)
        if version is not None:
            yield JavaHome(path, version)


def _major_version(home: Path) -> int | None:
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # 'openjdk version "17.0.15"'; before Java 9 it was "1.8.0_402".
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(version[1]) if version else None
