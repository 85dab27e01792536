"""A JDK of version 17 or newer: found, or installed by apt where we are root on Debian or Ubuntu."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.set_up.console import SetUpError, run_logged
from scripts.set_up.places import Places

OLDEST = 17
# Spark's own range first (17, 21), newer ones after; which of them exist depends on the release of Debian or Ubuntu.
APT_PACKAGES = ("openjdk-17-jdk-headless", "openjdk-21-jdk-headless", "openjdk-25-jdk-headless", "default-jdk-headless")
JVM_FOLDER = Path("/usr/lib/jvm")


@dataclass(frozen=True)
class Jdk:
    home: Path
    version: int


def prepare(places: Places, env: Mapping[str, str], *, may_install: bool, jvm_folder: Path = JVM_FOLDER) -> Path:
    """The home of a JDK: one that is there, else one that apt installs.

    Raises SetUpError with the one command to run where none is found and we may not install.
    """
    jdk = find(env, jvm_folder)
    if jdk is None and may_install and shutil.which("apt-get"):
        _install(places)
        jdk = find(env, jvm_folder)
    if jdk is None:
        raise SetUpError(f"no JDK {OLDEST} or newer (java and javac) by JAVA_HOME, PATH or {jvm_folder}. {_advice()}")
    return jdk.home


def find(env: Mapping[str, str], jvm_folder: Path = JVM_FOLDER) -> Jdk | None:
    """The first JDK that is new enough: the one of JAVA_HOME, of PATH, then any below /usr/lib/jvm."""
    for java in _candidates(env, jvm_folder):
        jdk = ask(java)
        if jdk is not None and jdk.version >= OLDEST and (jdk.home / "bin" / "javac").exists():
            return jdk
    return None


def ask(java: Path) -> Jdk | None:
    """What this `java` says of itself. A shim or a link is thereby seen through."""
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse(answer.stderr + answer.stdout)


def parse(settings: str) -> Jdk | None:
    """Reads `java -XshowSettings:properties`; "1.8" is version 8."""
    home = re.search(r"^\s*java\.home = (.+)$", settings, flags=re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)$", settings, flags=re.MULTILINE)
    if home is None or version is None:
        return None
    return Jdk(Path(home[1].strip()), int(version[1]))


def _candidates(env: Mapping[str, str], jvm_folder: Path) -> Iterator[Path]:
    if env.get("JAVA_HOME"):
        yield Path(env["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=env.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path)
    yield from sorted(jvm_folder.glob("*/bin/java"))


def _install(places: Places) -> None:
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    log = places.work / "apt.log"
    wait = ["-o", "DPkg::Lock::Timeout=120"]
    run_logged("no JDK found; asking apt what there is", ["apt-get", *wait, "update"], log=log, env=env)
    package = apt_package()
    if package is None:
        raise SetUpError(f"apt offers no JDK {OLDEST} or newer. {_advice()}")
    run_logged(
        f"installing {package}",
        ["apt-get", *wait, "install", "-y", "--no-install-recommends", package],
        log=log,
        env=env,
    )


def apt_package() -> str | None:
    """The first of our packages that apt could install here; None where there is no apt or none of them."""
    if not shutil.which("apt-cache"):
        return None
    answer = subprocess.run(["apt-cache", "policy", *APT_PACKAGES], capture_output=True, text=True)
    candidates = re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (.+)$", answer.stdout, flags=re.MULTILINE)
    offered = {name for name, version in candidates if version != "(none)"}
    return next((package for package in APT_PACKAGES if package in offered), None)


def _advice() -> str:
    if not shutil.which("apt-get"):
        return f"Install a JDK {OLDEST} or newer and set JAVA_HOME to it."
    return f"Run: sudo apt-get install -y --no-install-recommends {apt_package() or APT_PACKAGES[0]}"
