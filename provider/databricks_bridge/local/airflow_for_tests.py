"""An Airflow for one test session: a home of its own with an empty database, and only environment variables to say so.

Nothing here imports Airflow: it reads its home once, when it is imported, and must not be before this has been said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.engine.jars import cache_folder

DATABASE = "airflow.db"


class NoAirflow(BridgeError):
    """Airflow could not make the database of the test session."""


def settings(home: Path, dags: Path) -> dict[str, str]:
    """The environment of an Airflow whose home is `home` and whose only DAG bundle is the folder `dags`."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / DATABASE}",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def make_database(home: Path, environment: Mapping[str, str]) -> None:
    """Airflow's empty tables in `home`: made once for each version of Airflow, and copied from the cache after that.

    Raises NoAirflow with what `airflow db migrate` said.
    """
    home.mkdir(parents=True, exist_ok=True)
    providers = version("apache-airflow-providers-databricks")
    kept = cache_folder(environment) / f"airflow-{version('apache-airflow')}-databricks-{providers}.db"
    if not kept.exists():
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
            raise NoAirflow(f"airflow db migrate failed for the tests' own Airflow in {home}:\n{said}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(home / DATABASE, draft)
        draft.replace(kept)
    else:
        shutil.copyfile(kept, home / DATABASE)
