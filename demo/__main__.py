"""`python -m demo` runs it, `python -m demo stop` ends what was kept.

KEEP=1 in the environment leaves all running; DEMO_HOME names another folder than .demo, for a second one at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from demo import run
from demo.places import Places


def main(arguments: list[str]) -> int:
    home = os.environ.get("DEMO_HOME")
    places = Places(Path(home).absolute()) if home else Places()
    if arguments == ["stop"]:
        return run.stop(places)
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    return run.run(places, keep=os.environ.get("KEEP", "") not in ("", "0"))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code == run.INTERRUPTED:
        # A KeyboardInterrupt that passes through exec() of a string, as when a dataclass is made during an import, makes
        # CPython end by SIGINT whatever exit code sys.exit() is given, although it was caught.
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)
