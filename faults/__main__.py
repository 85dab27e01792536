"""`python -m faults`: plays the schedules, prints the table of fault by step, and judges. Exit code 1 when anything is wrong.

`SEED=n` (default 1) and `ONLY=m` in the environment bring one schedule back, with its diary; `SCHEDULES=n` and `SPARK=n` say how
many, with an instant notebook runner and on real Spark; a schedule on Spark is brought back by `ONLY=spark-m`.

`KILL=1` plays `kill -9` of every process between every two steps of the protocol instead, on real Airflow; `ONLY=task:claim`
plays one cell of that.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if os.environ.get("KILL"):
        from faults.kill.run import main
    else:
        from faults.run import main
    sys.exit(main(os.environ))
