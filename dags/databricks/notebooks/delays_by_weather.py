# Databricks notebook source
# MAGIC %md
# MAGIC # Gold: delays by weather
# MAGIC For each airport and hour of scheduled departure: flights, departed, arrived, minutes of delay, and the hour's weather.
# MAGIC
# MAGIC The job is told which versions of silver to read, as `<source>_table`, `<source>_start` and `<source>_end`, both
# MAGIC inclusive. `start` above `end` means that the source has nothing new; `start` 0 means the whole table as of `end`;
# MAGIC then hours that gold has and the source has no more lose their rows too.
# MAGIC
# MAGIC The ranges say which airports and hours were touched. Those are computed again from the tables as of `as_of`, and
# MAGIC MERGEd, so a run that is repeated does no harm. `<source>_as_of` is `end`, but for a backfill: its ranges are old, and
# MAGIC what it writes lies beside the results of newer versions, so it reads the newest state.

# COMMAND ----------

import json

for source in ("flights", "weather"):
    for part in ("table", "start", "end", "as_of"):
        dbutils.widgets.text(f"{source}_{part}", "")
dbutils.widgets.text("bridge_epoch", "")

# COMMAND ----------


class BridgeReaderBehind(Exception):
    """This workspace does not see the version yet that the writer's workspace has. Worth another try later."""


class Source:
    def __init__(self, name):
        self.name = name
        self.table = dbutils.widgets.get(f"{name}_table")
        self.start = int(dbutils.widgets.get(f"{name}_start"))
        self.end = int(dbutils.widgets.get(f"{name}_end"))
        self.as_of = int(dbutils.widgets.get(f"{name}_as_of"))

    def check(self):
        seen = spark.sql(f"DESCRIBE HISTORY {self.table} LIMIT 1").first()["version"]
        if seen < self.as_of:
            raise BridgeReaderBehind(f"{self.table} is at version {seen} here, version {self.as_of} was asked for")
        if dbutils.widgets.get("bridge_epoch") == "backfill":
            # It may have waited in the job's queue, or a person repairs it: what ran before it may have read a newer state.
            self.as_of = seen

    def at(self, version):
        return spark.sql(f"SELECT * FROM {self.table} VERSION AS OF {version}")

    def changes(self):
        """The rows in the range: before and after an update, so that a row that moved touches both its hours."""
        if self.start == 0:
            return self.at(self.end)
        if self.start > self.end:
            return self.at(self.as_of).limit(0)
        return (
            spark.read.option("readChangeFeed", "true")
            .option("startingVersion", self.start)
            .option("endingVersion", self.end)
            .table(self.table)
        )


flights, weather = Source("flights"), Source("weather")
flights.check()
weather.check()

# COMMAND ----------

for source in (flights, weather):
    source.changes().createOrReplaceTempView(f"changed_{source.name}")
    source.at(source.as_of).createOrReplaceTempView(source.name)

# The touched hours are few, whatever the number of rows, so they go through the driver and the ranges are read once.
# As seconds, because a Python datetime would pass through the driver's time zone.
changed = spark.sql("""
  SELECT 'flights' AS source, origin, unix_timestamp(time_hour) AS hour, count(*) AS changes
  FROM changed_flights GROUP BY origin, time_hour
  UNION ALL
  SELECT 'weather' AS source, origin, unix_timestamp(time_hour) AS hour, count(*) AS changes
  FROM changed_weather GROUP BY origin, time_hour
""").collect()

told = {
    "rows_in": {s.name: sum(row.changes for row in changed if row.source == s.name) for s in (flights, weather)},
    "rows_out": 0,
    "ranges": {s.name: {"table": s.table, "start": s.start, "end": s.end, "as_of": s.as_of} for s in (flights, weather)},
}
if not changed:
    dbutils.notebook.exit(json.dumps(told))

# COMMAND ----------

hours = {(row.origin, row.hour) for row in changed}
if flights.start == 0 or weather.start == 0:
    gold = spark.sql("SELECT origin, unix_timestamp(time_hour) AS hour FROM main.gold.delays_by_weather").collect()
    hours |= {(row.origin, row.hour) for row in gold}
touched = spark.createDataFrame(list(hours), "origin STRING, hour BIGINT")
touched.selectExpr("origin", "timestamp_seconds(hour) AS time_hour").createOrReplaceTempView("touched")

# An hour without a flight has no row in gold; one that lost its last flight loses its row.
merged = spark.sql("""
  MERGE INTO main.gold.delays_by_weather AS old
  USING (
    SELECT
      touched.origin, touched.time_hour,
      count(flights.flight_id) AS flights,
      count(flights.dep_delay) AS departed,
      count(flights.arr_delay) AS arrived,
      coalesce(sum(CAST(flights.dep_delay AS BIGINT)), 0) AS dep_delay_minutes,
      coalesce(sum(CAST(flights.arr_delay AS BIGINT)), 0) AS arr_delay_minutes,
      weather.wind_speed, weather.visib, weather.precip
    FROM touched
    LEFT JOIN flights ON flights.origin = touched.origin AND flights.time_hour = touched.time_hour
    LEFT JOIN weather ON weather.origin = touched.origin AND weather.time_hour = touched.time_hour
    GROUP BY touched.origin, touched.time_hour, weather.wind_speed, weather.visib, weather.precip
  ) AS new
  ON old.origin = new.origin AND old.time_hour = new.time_hour
  WHEN MATCHED AND new.flights = 0 THEN DELETE
  WHEN MATCHED THEN UPDATE SET *
  WHEN NOT MATCHED AND new.flights > 0 THEN INSERT *
""").first()
told["rows_out"] = merged["num_affected_rows"]

# COMMAND ----------

dbutils.notebook.exit(json.dumps(told))
