"""SQL statements and functions that are not served."""

from __future__ import annotations

from databricks_bridge.local.refusals.model import Area, Refusal, refusals

_FILES = 'read files with spark.read, spark.readStream.format("cloudFiles") or json.`/Volumes/...` and INSERT the rows'


def _not(what: str, instead: str = "") -> str:
    return f"{what} not served by the local workspace" + (f"; {instead}." if instead else ".")


REFUSALS: tuple[Refusal, ...] = refusals(
    Area.SQL,
    {
        "COPY INTO": (_not("COPY INTO is", _FILES), "DOC", "COPY INTO main.default.t FROM '/Volumes/a/b/c'"),
        "read_files": (_not("read_files and cloud_files are", _FILES), "DOC", "SELECT * FROM read_files('/Volumes/a/b/c')"),
        "read_kafka and its like": (_not("read_kafka, read_kinesis, read_pubsub and read_pulsar are"), "DOC", "SELECT * FROM read_kafka(subscribe => 'a')"),
        "remote_query": (_not("remote_query is"), "DOC", "SELECT * FROM remote_query('a', query => 'b')"),
        "vector_search": (_not("vector_search is"), "DOC", "SELECT * FROM vector_search(index => 'a', query => 'b')"),
        "http_request": (_not("http_request is"), "DOC", "SELECT http_request(conn => 'a', method => 'GET', path => '')"),
        "secret": (_not("secret is", "pass what is needed as a parameter"), "DOC", "SELECT secret('a', 'b')"),
        "event_log": (_not("event_log is, since it runs no pipelines, which are"), "DOC", "SELECT * FROM event_log(TABLE(a.b.c))"),
        "AI functions": (_not("ai_query and the other AI functions are"), "DOC", "SELECT ai_query('model', 'question')"),
        "LIST": (_not("LIST is", "use dbutils.fs.ls or the Files API"), "DOC", "LIST '/Volumes/a/b/c'"),
        "PUT, GET, REMOVE": (_not("PUT, GET and REMOVE are", "use the Files API"), "DOC", "PUT '/tmp/a' INTO '/Volumes/a/b/c/d'"),
        "UNDROP": (_not("UNDROP is, since what is dropped is gone here: it is"), "DOC", "UNDROP TABLE main.default.t"),
        "DENY": (_not("DENY is", "a privilege that was not granted is denied"), "DOC", "DENY SELECT ON TABLE main.default.t TO bob"),
        "SYNC": (_not("SYNC is"), "DOC", "SYNC SCHEMA a.b FROM hive_metastore.c"),
        "ANALYZE TABLE": (_not("ANALYZE TABLE is"), "DOC", "ANALYZE TABLE main.default.t COMPUTE STATISTICS"),
        "SHOW CREATE TABLE": (_not("SHOW CREATE TABLE is", "use DESCRIBE EXTENDED"), "DOC", "SHOW CREATE TABLE main.default.t"),
        "materialized views": (_not("materialized views are", "use a view, or a table that a job writes"), "DOC", "CREATE MATERIALIZED VIEW main.default.v AS SELECT 1"),
        "streaming tables": (_not("streaming tables are", "use a stream of a notebook with toTable"), "DOC", "CREATE OR REFRESH STREAMING TABLE main.default.t AS SELECT 1"),
        "live tables": (_not("live tables of pipelines are"), "DOC", "CREATE OR REFRESH LIVE TABLE t AS SELECT 1"),
        "functions in a catalog": (_not("functions in a catalog are", "use CREATE TEMPORARY FUNCTION"), "DOC", "CREATE FUNCTION main.default.f(x INT) RETURNS INT RETURN x"),
        "procedures": (_not("procedures are"), "DOC", "CREATE PROCEDURE main.default.p() LANGUAGE SQL AS BEGIN SELECT 1; END"),
        "external volumes": (_not("external volumes are", "use CREATE VOLUME"), "DOC", "CREATE EXTERNAL VOLUME a.b.c LOCATION 's3://bucket/p'"),
        "external locations": (_not("external locations are", "the API lists the volumes"), "DOC", "CREATE EXTERNAL LOCATION a URL 's3://bucket/p' WITH (STORAGE CREDENTIAL b)"),
        "credentials": (_not("credentials are"), "DOC", "SHOW STORAGE CREDENTIALS"),
        "shares and recipients": (_not("statements on shares, recipients and providers are", "declare shares in the lab file, or use the API"), "DOC", "CREATE SHARE a"),
        "connections": (_not("connections are"), "DOC", "SHOW CONNECTIONS"),
        "foreign catalogs": (_not("foreign catalogs are"), "DOC", "CREATE FOREIGN CATALOG a USING CONNECTION b"),
        "groups and users": (_not("groups and other users are"), "DOC", "SELECT is_account_group_member('admins')"),
        "policies": (_not("policies are"), "DOC", "CREATE POLICY a ON SCHEMA main.default COLUMN MASK b TO c FOR TABLES"),
        "tags": (_not("tags are"), "DOC", "ALTER TABLE main.default.t SET TAGS ('a' = 'b')"),
        "ALTER CATALOG, SCHEMA, VOLUME": (_not("ALTER CATALOG, SCHEMA and VOLUME are", "use the API"), "DOC", "ALTER SCHEMA main.default SET OWNER TO bob"),
        "row filters and column masks": (_not("row filters and column masks are"), "DOC", "ALTER TABLE main.default.t SET ROW FILTER f ON (x)"),
        "CLUSTER BY AUTO": (_not("CLUSTER BY AUTO is", "name the columns"), "DOC", "CREATE TABLE main.default.t (id INT) CLUSTER BY AUTO"),
        "deep clones": (_not("deep clones are", "use SHALLOW CLONE or CREATE TABLE AS SELECT"), "DOC", "CREATE TABLE main.default.t DEEP CLONE main.default.s"),
        "tables with a LOCATION": (_not("LOCATION is", "it keeps managed tables only, so leave LOCATION out"), "DOC", "CREATE TABLE main.default.t (id INT) LOCATION '/Volumes/a/b/c'"),
        "cloud paths": (_not("paths of cloud storage are", "put the files into a volume and use /Volumes/<catalog>/<schema>/<volume>/..."), "DOC", "SELECT * FROM json.`s3://bucket/a.json`"),
        "other system tables": (_not("this system table is", "system.access.table_lineage and four tables of system.lakeflow are"), "DOC", "SELECT * FROM system.billing.usage"),
        "other information schemas": (_not("this table of the information schema is", "catalogs, schemata, tables, columns, views and volumes are"), "DOC", "SELECT * FROM main.information_schema.routines"),
    },
)  # fmt: skip
