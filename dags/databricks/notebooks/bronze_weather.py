# Databricks notebook source
# MAGIC %md
# MAGIC # Bronze: weather observations as they landed
# MAGIC A file arrival trigger starts this job. Auto Loader takes every file that it has not taken yet, once, and stops.

# COMMAND ----------

import json

SCHEMA = """
  weather_id STRING, origin STRING, time_hour TIMESTAMP, temp DOUBLE, humid DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE,
  precip DOUBLE, pressure DOUBLE, visib DOUBLE, revision INT"""

landed = (
    spark.readStream.format("cloudFiles")
    .option("cloudFiles.format", "json")
    .schema(SCHEMA)
    .load("/Volumes/main/landing/weather/")
    .selectExpr("*", "_metadata.file_path AS source_file")
)

# COMMAND ----------

query = (
    landed.writeStream.option("checkpointLocation", "/Volumes/main/landing/checkpoints/bronze_weather")
    .trigger(availableNow=True)
    .toTable("main.bronze.weather")
)
query.awaitTermination()

# COMMAND ----------

dbutils.notebook.exit(json.dumps({"rows_in": sum(p["numInputRows"] for p in query.recentProgress)}))
