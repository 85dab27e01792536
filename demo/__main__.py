"""`python -m demo` runs it (KEEP=1 in the environment leaves all running), `python -m demo stop` ends what was kept."""

from __future__ import annotations

import os
import sys

from demo import run
from demo.places import Places


def main(arguments: list[str]) -> int:
    if arguments == ["stop"]:
        return run.stop(Places())
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    return run.run(Places(), keep=os.environ.get("KEEP", "") not in ("", "0"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
