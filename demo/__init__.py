"""The demo: three local workspaces and a real Airflow, from a file that lands to gold, and the proof of it.

Nothing here imports `databricks_bridge`. The demo starts it, as processes, and then judges by what these left behind.
"""
