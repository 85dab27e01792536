# Databricks notebook source
# MAGIC %md
# MAGIC # Bronze: flight records as they landed
# MAGIC A file arrival trigger starts this job. Auto Loader takes every file that it has not taken yet, once, and stops.

# COMMAND ----------

import json

SCHEMA = """
  flight_id STRING, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, time_hour TIMESTAMP,
  sched_dep_time INT, dep_time INT, dep_delay INT, arr_time INT, arr_delay INT, air_time INT, revision INT"""

landed = (
    spark.readStream.format("cloudFiles")
    .option("cloudFiles.format", "json")
    .schema(SCHEMA)
    .load("/Volumes/main/landing/flights/")
    .selectExpr("*", "_metadata.file_path AS source_file")
)

# COMMAND ----------

query = (
    landed.writeStream.option("checkpointLocation", "/Volumes/main/landing/checkpoints/bronze_flights")
    .trigger(availableNow=True)
    .toTable("main.bronze.flights")
)
query.awaitTermination()

# COMMAND ----------

dbutils.notebook.exit(json.dumps({"rows_in": sum(p["numInputRows"] for p in query.recentProgress)}))
