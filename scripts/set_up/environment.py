"""`.cache/setup/env.sh`: what `make` sources before it runs anything in the virtual environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from scripts.set_up.places import Places


def write(places: Places, java_home: Path) -> None:
    values = variables(places, java_home)
    places.work.mkdir(parents=True, exist_ok=True)
    places.environment.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items()))


def variables(places: Places, java_home: Path) -> dict[str, str]:
    return {"JAVA_HOME": str(java_home), "DATABRICKS_BRIDGE_CACHE": str(places.engine_cache)}


def known_java_home(places: Places, env: Mapping[str, str]) -> Path | None:
    """The JDK that an earlier set-up chose, while it is still there and JAVA_HOME does not name another."""
    try:
        found = re.search(r"^export JAVA_HOME=(.*)$", places.environment.read_text(), flags=re.MULTILINE)
    except FileNotFoundError:
        return None
    if found is None:
        return None
    home = Path(shlex.split(found[1])[0])
    wanted = env.get("JAVA_HOME")
    if wanted and Path(wanted).resolve() != home.resolve():
        return None
    return home if (home / "bin" / "java").exists() and (home / "bin" / "javac").exists() else None
