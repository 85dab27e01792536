# Databricks notebook source
# MAGIC %md
# MAGIC # Silver: one row for each flight, its newest revision
# MAGIC A table update trigger on `main.bronze.flights` starts this job. The stream reads bronze's change data feed from where
# MAGIC its checkpoint ended, and stops. A batch may hold several revisions of one flight, and a batch may come twice after a
# MAGIC failure: the MERGE takes the highest revision and never an older one than silver has, so both are harmless.

# COMMAND ----------

import json

from delta.tables import DeltaTable
from pyspark.sql import Window
from pyspark.sql import functions as F

# The job maps {{job.trigger.table_update.updated_tables}} into it. Only shown: what to read is the checkpoint's business.
dbutils.widgets.text("updated_tables", "")
print("started for", dbutils.widgets.get("updated_tables") or "no table update")

KEY = "flight_id"

# COMMAND ----------


def merge_newest(batch, batch_id):
    if batch.isEmpty():  # a commit without changes, such as OPTIMIZE, is not worth a version of silver
        return
    newest_first = Window.partitionBy(KEY).orderBy(F.desc("revision"), F.desc("_commit_version"), F.desc("source_file"))
    newest = (
        batch.where(F.col("_change_type").isin("insert", "update_postimage"))
        .withColumn("_place", F.row_number().over(newest_first))
        .where("_place = 1")
        .drop("_place", "source_file", "_change_type", "_commit_version", "_commit_timestamp")
    )
    (
        DeltaTable.forName(batch.sparkSession, "main.silver.flights")
        .alias("old")
        .merge(newest.alias("new"), f"old.{KEY} = new.{KEY}")
        .whenMatchedUpdateAll("new.revision > old.revision")
        .whenNotMatchedInsertAll()
        .execute()
    )


# COMMAND ----------

query = (
    spark.readStream.option("readChangeFeed", "true")
    .table("main.bronze.flights")
    .writeStream.foreachBatch(merge_newest)
    .option("checkpointLocation", "/Volumes/main/landing/checkpoints/silver_flights")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# COMMAND ----------

dbutils.notebook.exit(json.dumps({"rows_in": sum(p["numInputRows"] for p in query.recentProgress)}))
