"""Clients that cannot work, since they speak a protocol that is not served."""

from __future__ import annotations

from databricks_bridge.local.refusals.model import HERE, Area, refusals

REFUSALS = refusals(
    Area.CLIENT,
    {
        "Thrift": (
            f"{HERE} does not serve Thrift; databricks-sql-connector reaches it with use_sea=True, the Airflow provider by "
            "DatabricksSQLStatementsOperator",
            "databricks-sql-connector, DatabricksSqlOperator, DatabricksCopyIntoOperator, DatabricksSqlSensor, "
            "DatabricksPartitionSensor, dbt-databricks, databricks-sqlalchemy, JDBC, ODBC",
            ("POST", "/sql/1.0/warehouses/0000000000000001"),
        ),
        "session_confs of a SQL session": (
            f"{HERE} does not follow session_confs of SQL sessions",
            "databricks-sql-connector",
            ("POST", "/api/2.0/sql/sessions"),
        ),
    },
)
