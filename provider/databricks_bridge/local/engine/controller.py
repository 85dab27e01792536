"""The process that owns the Spark JVM. It answers JSON lines on standard input with JSON lines on standard output.

`{"id": 1, "op": "open", "key": ..., "settings": {...}}` gives a notebook a session and a gateway: `port`, `secret`.
`{"id": 2, "op": "close", "key": ...}` stops what is left of it: `quiet` says whether nothing goes on.
`{"id": 3, "op": "streams"}` counts the active streams. The end of standard input ends this process and the JVM. A JVM that
ends by itself ends this process: `{"jvm_exit_code": ...}` is its last line.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from databricks_bridge.local.engine.lifeline import die_with_parent, take_group_along
from databricks_bridge.local.engine.replies import Reply, take_standard_output

CLOSE_TIMEOUT_MS = 30_000
JAVA_SESSIONS = "databricks_bridge.local.NotebookSessions"
JAVA_HEAP_WATCH = "databricks_bridge.local.HeapWatch"


def settings(root: Path, heap: str, jars: list[str]) -> dict[str, str]:
    """Spark's settings. C1 and the serial collector are the fastest for short runs on few cores (measured).

    A JVM that lacks memory ends at once: what is left of it could neither work nor stop.
    """
    # In quotes, because the options are one string and a folder's name may have spaces.
    folders = f'"-Djava.io.tmpdir={root / "tmp"}" "-Dderby.system.home={root}"'
    return {
        "spark.master": "local[*]",
        "spark.app.name": "databricks-bridge-local",
        "spark.jars": ",".join(jars),
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError {folders}"
        ),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Spark listens for executors, which a local master never has, and deserialises what they send: other users of this
        # machine reach these ports too. With a local master Spark makes the secret itself and keeps it in memory.
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        "spark.local.dir": str(root / "tmp"),
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.sources.default": "delta",
        "spark.sql.session.timeZone": "UTC",
        # Delta 4.4.0's parser loses the arguments of spark.sql(text, args) unless they are bound the older way.
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
        "spark.sql.shuffle.partitions": "2",
        # Tables here are small: compiling a query costs more than running it interpreted (a quarter of all CPU, measured).
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.sql.streaming.stopTimeout": "10s",
        "spark.databricks.delta.snapshotPartitions": "2",
        # Hadoop sets the mode of what it writes by this, and not by the umask of its process.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


class Controller:
    """Serves the operations on one running JVM."""

    def __init__(self, spark: Any) -> None:
        self._root = spark._jsparkSession
        self._sessions = getattr(spark.sparkContext._jvm, JAVA_SESSIONS)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, without its id."""
        match request["op"]:
            case "open":
                gateway = self._sessions.open(request["key"], self._root, request["settings"])
                return {"port": gateway.getListeningPort(), "secret": gateway.secret()}
            case "close":
                return {"quiet": self._sessions.close(request["key"], CLOSE_TIMEOUT_MS)}
            case "streams":
                return {"streams": self._sessions.activeStreams()}
            case other:
                return {"error": f"unknown operation {other!r}"}


def main(argv: list[str]) -> None:
    """Arguments: the engine's folder, the size of the heap, the jars. Does not return before standard input ends."""
    die_with_parent()
    # The JVM watches for the end of its standard input, which it cannot while it collects garbage.
    take_group_along()
    reply = take_standard_output()
    root = Path(argv[0])
    for left_by_a_killed_one in ("tmp", "warehouse"):
        shutil.rmtree(root / left_by_a_killed_one, ignore_errors=True)
    (root / "tmp").mkdir(parents=True)
    spark, jvm = _start_spark(root, argv[1], argv[2:])
    threading.Thread(target=_end_with, args=(jvm, reply), daemon=True).start()
    controller = Controller(spark)
    reply({"ready": True, "jvm": jvm.pid})
    for line in sys.stdin:
        threading.Thread(target=_serve, args=(controller, json.loads(line), reply), daemon=True).start()
    threading.Timer(10, os._exit, args=(0,)).start()
    spark.stop()
    jvm.kill()
    os._exit(0)


def _start_spark(root: Path, heap: str, jars: list[str]) -> tuple[Any, Any]:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    for name, value in settings(root, heap, jars).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    getattr(spark.sparkContext._jvm, JAVA_HEAP_WATCH).begin()
    return spark, spark.sparkContext._gateway.proc


def _serve(controller: Controller, request: dict[str, Any], reply: Reply) -> None:
    try:
        answer = controller.answer(request)
    except Exception as error:  # noqa: BLE001 - the other side decides; a lost answer would leave it waiting
        answer = {"error": f"{type(error).__name__}: {error}"}
    reply({"id": request["id"], **answer})


def _end_with(jvm: Any, reply: Reply) -> None:
    reply({"jvm_exit_code": jvm.wait()})
    os._exit(3)


if __name__ == "__main__":
    main(sys.argv[1:])
