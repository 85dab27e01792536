# Databricks notebook source
# MAGIC %md
# MAGIC # Audit: what bronze held after each of its runs
# MAGIC Airflow starts this job after a run of `bronze-flights` that Databricks fired by itself. One row for each bronze run,
# MAGIC however often it is asked for.

# COMMAND ----------

import json

dbutils.widgets.text("bronze_run_id", "", "Run id of the bronze job, or several with commas between")
runs = [int(run_id) for run_id in dbutils.widgets.get("bronze_run_id").split(",")]
version = spark.sql("DESCRIBE HISTORY main.bronze.flights LIMIT 1").first()["version"]
rows = spark.sql(f"SELECT count(*) AS n FROM main.bronze.flights VERSION AS OF {version}").first()["n"]

# COMMAND ----------

spark.sql(f"""
  MERGE INTO main.audit.bronze_runs AS old
  USING (
    SELECT explode(array({", ".join(f"{run_id}L" for run_id in runs)})) AS run_id,
      current_timestamp() AS audited_at, {version}L AS bronze_version, {rows}L AS bronze_rows
  ) AS new
  ON old.run_id = new.run_id
  WHEN NOT MATCHED THEN INSERT *
""")

# COMMAND ----------

dbutils.notebook.exit(json.dumps({"runs": runs, "bronze_version": version, "bronze_rows": rows}))
