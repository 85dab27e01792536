# Databricks notebook source
# MAGIC %md
# MAGIC # Create this workspace's tables
# MAGIC Run once after a deploy, before the first file lands: a table-update trigger can only watch a table that exists.
# MAGIC Every table keeps a change data feed from its first version on. Running it again changes nothing.

# COMMAND ----------

dbutils.widgets.text("tables", "")

FLIGHT = """
  flight_id STRING NOT NULL COMMENT 'Key of a scheduled departure',
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  time_hour TIMESTAMP COMMENT 'Hour of the scheduled departure',
  sched_dep_time INT, dep_time INT, dep_delay INT COMMENT 'Minutes',
  arr_time INT, arr_delay INT COMMENT 'Minutes', air_time INT,
  revision INT COMMENT 'The highest of a key is the truth'"""

WEATHER = """
  weather_id STRING NOT NULL COMMENT 'Key of an airport and an hour',
  origin STRING, time_hour TIMESTAMP, temp DOUBLE, humid DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE,
  precip DOUBLE COMMENT 'Inches', pressure DOUBLE, visib DOUBLE COMMENT 'Miles',
  revision INT COMMENT 'The highest of a key is the truth'"""

DELAYS = """
  origin STRING NOT NULL, time_hour TIMESTAMP NOT NULL COMMENT 'Hour of the scheduled departure',
  flights BIGINT, departed BIGINT, arrived BIGINT,
  dep_delay_minutes BIGINT COMMENT 'Sum over the departed', arr_delay_minutes BIGINT COMMENT 'Sum over the arrived',
  wind_speed DOUBLE, visib DOUBLE, precip DOUBLE"""

SOURCE_FILE = ", source_file STRING COMMENT 'The landed file that the record came in'"

TABLES = {
    "flights": {
        "main.bronze.flights": FLIGHT + SOURCE_FILE,
        "main.silver.flights": FLIGHT,
        "main.audit.bronze_runs": "run_id BIGINT NOT NULL, audited_at TIMESTAMP, bronze_version BIGINT, bronze_rows BIGINT",
    },
    "weather": {
        "main.bronze.weather": WEATHER + SOURCE_FILE,
        "main.silver.weather": WEATHER,
    },
    "delays": {"main.gold.delays_by_weather": DELAYS},
}

# COMMAND ----------

for name, columns in TABLES[dbutils.widgets.get("tables")].items():
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING DELTA TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
