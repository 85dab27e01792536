"""`python -m scripts.set_up`: every step in order, each skipped where its result is there. Exit code 1 on failure."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.set_up import engine, environment, java, packages
from scripts.set_up.console import SetUpError, say, seconds
from scripts.set_up.places import Places, here


def main() -> int:
    started = time.monotonic()
    places = here()
    try:
        with _alone(places):
            java_home = environment.known_java_home(places, os.environ)
            if java_home is None:
                java_home = java.prepare(places, os.environ, may_install=os.geteuid() == 0)
                say(f"Java: {java_home}")
            packages.prepare(places)
            environment.write(places, java_home)
            engine.prepare(places, environment.variables(places, java_home))
    except SetUpError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; the next run goes on from here", file=sys.stderr)
        return 130
    say(f"ready in {seconds(started)}")
    return 0


@contextmanager
def _alone(places: Places) -> Iterator[None]:
    """Two `make` at once: the second waits for the first instead of breaking it."""
    places.work.mkdir(parents=True, exist_ok=True)
    with (places.work / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is running here; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
