"""Delta's jars and the compiled catalog, fetched and built once by the local workspace's own module."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.set_up import stamps
from scripts.set_up.console import run_logged
from scripts.set_up.places import Places

MODULE = "databricks_bridge.local.engine.jars"


def prepare(places: Places, variables: Mapping[str, str]) -> None:
    """Fills the engine's cache. Where it was filled from the same pins and sources, nothing is done or fetched."""
    stamp = places.engine_cache / ".stamp"
    value = stamps.digest([], [places.lock, *_sources(places)])
    if stamps.holds(stamp, value):
        return
    run_logged(
        "fetching Delta's jars and compiling the catalog",
        [str(places.python), "-m", MODULE],
        log=places.work / "jars.log",
        env=os.environ | variables,
    )
    stamps.put(stamp, value)


def _sources(places: Places) -> Iterator[Path]:
    engine = places.package / "local" / "engine"
    yield engine / "jars.py"
    yield from sorted(engine.rglob("*.java"))
