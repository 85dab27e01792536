"""Shared by all tests: no test reads or writes the user's own Airflow home."""

from __future__ import annotations

import os
import tempfile

# Before anything imports Airflow, which reads its home once.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="databricks-bridge-airflow-"))
