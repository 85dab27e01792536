"""The jars of the engine, made ready once: Delta's from Maven Central, our own compiled from the package's Java files.

`python -m databricks_bridge.local.engine.jars` does it and prints its progress; later starts need no network.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.engine.java_home import JavaHome, NoJava, find_compiler, find_java
from databricks_bridge.local.engine.model import USER_NAME

__all__ = ["JarsUnavailable", "JavaHome", "NoJava", "cache_folder", "find_java", "prepare", "spark_home"]

DELTA_VERSION = "4.4.0"
DELTA_PACKAGE = f"io.delta:delta-spark_4.2_2.13:{DELTA_VERSION}"
# pyspark ships these two itself.
EXCLUDED_GROUPS = "org.apache.hadoop:*,org.apache.logging.log4j:*"
# One resolver, by Ivy's own name for Maven Central. Spark's defaults would also ask a host that adds only log noise.
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
JAVA_SOURCES = Path(__file__).parent / "java"
# As sha256sum writes it: every jar that may be fetched, by its name in the cache. It belongs to DELTA_VERSION.
CHECKSUMS = JAVA_SOURCES / "jars.sha256"

Progress = Callable[[str], None]


class JarsUnavailable(BridgeError):
    """The engine's jars could not be fetched or compiled."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """DATABRICKS_BRIDGE_CACHE, else databricks-bridge in XDG_CACHE_HOME, else in ~/.cache."""
    env = os.environ if environ is None else environ
    if env.get("DATABRICKS_BRIDGE_CACHE"):
        return Path(env["DATABRICKS_BRIDGE_CACHE"])
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]) / "databricks-bridge"
    return Path.home() / ".cache" / "databricks-bridge"


def spark_home() -> Path:
    """The folder of the installed pyspark, which is a whole Spark. Raises JarsUnavailable without pyspark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsUnavailable("pyspark is not installed; install airflow-provider-databricks-bridge[local]")
    return Path(spec.origin).parent


def spark_environment(java: JavaHome, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a Spark process: our Java, our pyspark, loopback, and no other Spark's settings."""
    env = dict(os.environ if environ is None else environ)
    kept = {name: value for name, value in env.items() if not name.startswith(("SPARK_", "PYSPARK_", "_PYSPARK_"))}
    return kept | {
        "JAVA_HOME": str(java.path),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Whom current_user() names.
        "SPARK_USER": USER_NAME,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def prepare(progress: Progress, *, cache: Path | None = None) -> tuple[Path, ...]:
    """All jars that the engine adds to Spark's own; fetches and compiles what is missing, once for all processes.

    Raises NoJava without a Java 17, and JarsUnavailable when a jar cannot be fetched or compiled.
    """
    java = find_java(os.environ)
    folder = cache or cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock", progress):
        delta = _delta_jars(folder, java, progress)
        return (_own_jar(folder, delta, java, progress), *delta)


def _delta_jars(cache: Path, java: JavaHome, progress: Progress) -> tuple[Path, ...]:
    kept = cache / f"delta-spark-{DELTA_VERSION}-spark-{version('pyspark')}"
    if not kept.is_dir():
        progress(f"Fetching {DELTA_PACKAGE} from Maven Central (once, about 36 MB) ...")
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as scratch:
            fetched = _fetch(Path(scratch), java)
            verify(fetched)
            # The rename is what makes it whole: a fetch that was cut leaves no folder of this name.
            fetched.rename(kept)
        progress(f"Delta's jars are in {kept}")
    return verify(kept)


def verify(folder: Path) -> tuple[Path, ...]:
    """The jars of the folder, when they are the known ones byte for byte, not one more and not one less.

    :param folder: Where they lie: freshly fetched, or kept in the cache, where anything may have happened to them.
    :raises JarsUnavailable: when one is missing, unknown, or differs.
    """
    known = {name: digest for digest, name in (line.split() for line in CHECKSUMS.read_text().splitlines())}
    found = {jar.name: jar for jar in sorted(folder.glob("*.jar"))}
    problems = [f"{name} is missing" for name in known.keys() - found.keys()]
    problems += [f"{name} is not one of Delta {DELTA_VERSION}'s" for name in found.keys() - known.keys()]
    for name in known.keys() & found.keys():
        with found[name].open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if digest != known[name]:
            problems.append(f"{name} has the SHA-256 {digest}, and {known[name]} is expected")
    if problems:
        raise JarsUnavailable(
            f"The jars in {folder} are not those that this version was tested with, and are not used: "
            f"{'; '.join(sorted(problems))}. Remove that folder and start again to fetch them anew; when it happens "
            "again, look at what answers for Maven Central on this network."
        )
    return tuple(found.values())


def _fetch(scratch: Path, java: JavaHome) -> Path:
    settings = scratch / "ivysettings.xml"
    settings.write_text(IVY_SETTINGS)
    ivy = scratch / "ivy"
    # spark-submit resolves the packages, starts a gateway, sees its standard input at its end, and goes.
    answer = subprocess.run(
        [
            spark_home() / "bin" / "spark-submit",
            *("--conf", f"spark.jars.ivySettings={settings}", "--conf", f"spark.jars.ivy={ivy}"),
            *("--packages", DELTA_PACKAGE, "--exclude-packages", EXCLUDED_GROUPS),
            "pyspark-shell",
        ],
        env=spark_environment(java) | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "connection")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    jars = sorted((ivy / "jars").glob("*.jar"))
    whole = [jar for jar in jars if zipfile.is_zipfile(jar)]
    if answer.returncode != 0 or len(whole) != len(jars) or not any("delta-spark" in jar.name for jar in jars):
        said = "\n".join((answer.stdout + answer.stderr).splitlines()[-15:])
        raise JarsUnavailable(
            f"{DELTA_PACKAGE} could not be fetched; Maven Central must be reachable once, at set-up. "
            f"spark-submit (exit code {answer.returncode}) said:\n{said}"
        )
    return ivy / "jars"


def _own_jar(cache: Path, delta: tuple[Path, ...], java: JavaHome, progress: Progress) -> Path:
    sources = sorted(JAVA_SOURCES.glob("*.java"))
    digest = hashlib.sha256(f"{version('pyspark')} {DELTA_VERSION}".encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    jar = cache / f"databricks-bridge-engine-{digest.hexdigest()[:16]}.jar"
    if not jar.is_file():
        progress("Compiling the directory-backed catalog ...")
        with tempfile.TemporaryDirectory(dir=cache, prefix="compiling-") as scratch:
            _compile(sources, delta, Path(scratch), java).rename(jar)
    return jar


def _compile(sources: list[Path], delta: tuple[Path, ...], scratch: Path, java: JavaHome) -> Path:
    classpath = os.pathsep.join([str(spark_home() / "jars" / "*"), *map(str, delta)])
    javac = find_compiler(java, os.environ)
    answer = subprocess.run(
        [javac, "--release", "17", "-nowarn", "-proc:none", "-cp", classpath, "-d", scratch / "classes", *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise JarsUnavailable(f"{javac} could not compile the engine's Java files:\n{answer.stderr.strip()}")
    jar = scratch / "engine.jar"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for compiled in sorted((scratch / "classes").rglob("*.class")):
            archive.write(compiled, compiled.relative_to(scratch / "classes"))
    return jar


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"Another process is making the engine's jars ready; waiting for {path} ...")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Make the jars ready and say where they are. Returns the exit code."""
    try:
        jars = prepare(lambda line: print(line, flush=True))
    except BridgeError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(jars)} jars are ready in {cache_folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
