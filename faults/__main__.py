"""`python -m faults`: plays the schedules, prints the table of fault by step, and judges. Exit code 1 when anything is wrong.

`SEED=n` (default 1) and `ONLY=m` in the environment bring one schedule back, with its diary; `SCHEDULES=n` says how many.
"""

from __future__ import annotations

import os
import sys

from faults.run import main

if __name__ == "__main__":
    sys.exit(main(os.environ))
