"""How a notebook's process gets its Spark session in the JVM that is already running."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from databricks_bridge.local.engine.paths import VolumePaths

JAVA_SESSIONS = "databricks_bridge.local.NotebookSessions"


def attach(key: str, volumes: VolumePaths) -> SparkSession:
    """The session that the controller opened under `key`, with PySpark adapted to it.

    PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET name the gateway of this notebook alone: foreachBatch calls back into
    Python, and a gateway has one client to call back.
    """
    from py4j.protocol import escape_new_line
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from databricks_bridge.local.engine.adaptation import adapt_spark

    gateway: Any = launch_gateway()
    # The JVM sends this secret when it calls back (foreachBatch); PySpark itself would answer whoever connects.
    gateway.python_parameters.auth_token = escape_new_line(os.environ["PYSPARK_GATEWAY_SECRET"])
    SparkContext._ensure_initialized(gateway=gateway)
    sessions = getattr(gateway.jvm, JAVA_SESSIONS)
    java_session = sessions.session(key)
    java_context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(java_session.sparkContext())
    context: Any = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=java_context.getConf()))
    session_class: Any = SparkSession
    # A session's constructor would make it the default one of the JVM, which other notebooks share.
    session_class._should_update_active_session = staticmethod(lambda: False)
    spark: Any = session_class(context, java_session)
    session_class._instantiatedSession = session_class._activeSession = spark
    gateway.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(java_session)
    adapt_spark(volumes, lambda session: session_class(context, sessions.newSession(key)))
    # They print each failed query once more, as a line of JSON with the JVM's stack.
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(logger).disabled = True
    return spark
