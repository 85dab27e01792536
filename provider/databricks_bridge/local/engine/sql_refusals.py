"""Which statements are refused by name, found by their tokens."""

from __future__ import annotations

from databricks_bridge.local.engine.errors import NotServedHere
from databricks_bridge.local.engine.paths import cloud_scheme
from databricks_bridge.local.engine.sql_text import Statement
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.sql.system_schema import SCHEMAS, SYSTEM_CATALOG

_BEGINNINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("COPY INTO", ("COPY", "INTO")),
    ("LIST", ("LIST",)),
    ("PUT, GET, REMOVE", ("PUT|REMOVE",)),
    ("UNDROP", ("UNDROP",)),
    ("DENY", ("DENY",)),
    ("SYNC", ("SYNC",)),
    ("ANALYZE TABLE", ("ANALYZE", "TABLE|TABLES")),
    ("SHOW CREATE TABLE", ("SHOW", "CREATE", "TABLE")),
    ("materialized views", ("CREATE|ALTER|DROP|REFRESH", "OR?", "REPLACE|REFRESH?", "MATERIALIZED", "VIEW")),
    ("streaming tables", ("CREATE|ALTER|DROP|REFRESH", "OR?", "REPLACE|REFRESH?", "STREAMING", "TABLE")),
    ("live tables", ("CREATE", "OR?", "REFRESH?", "STREAMING?", "LIVE")),
    ("functions in a catalog", ("CREATE", "OR?", "REPLACE?", "FUNCTION")),
    ("procedures", ("CREATE|DROP|DESCRIBE", "OR?", "REPLACE?", "PROCEDURE")),
    ("external volumes", ("CREATE", "EXTERNAL", "VOLUME")),
    ("external locations", ("CREATE|ALTER|DROP|DESCRIBE|DESC|SHOW", "EXTERNAL", "LOCATION|LOCATIONS")),
    ("credentials", ("CREATE|ALTER|DROP|DESCRIBE|DESC|SHOW", "STORAGE|SERVICE?", "CREDENTIAL|CREDENTIALS")),
    ("shares and recipients", ("CREATE|ALTER|DROP|DESCRIBE|DESC|SHOW", "SHARE|SHARES|RECIPIENT|RECIPIENTS|PROVIDER|PROVIDERS")),
    ("connections", ("CREATE|ALTER|DROP|DESCRIBE|DESC|SHOW", "FOREIGN?", "CONNECTION|CONNECTIONS|SERVER")),
    ("foreign catalogs", ("CREATE", "FOREIGN", "CATALOG")),
    ("groups and users", ("CREATE|ALTER|DROP|SHOW", "GROUP|GROUPS|USER|USERS")),
    ("policies", ("CREATE|DROP|DESCRIBE|SHOW", "OR?", "REPLACE?", "POLICY|POLICIES")),
    ("tags", ("SET|UNSET", "TAG|TAGS")),
    ("ALTER CATALOG, SCHEMA, VOLUME", ("ALTER", "CATALOG|SCHEMA|DATABASE|VOLUME")),
)  # fmt: skip
_WITHIN: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("tags", ("ALTER",), ("SET|UNSET", "TAGS")),
    ("row filters and column masks", ("ALTER|CREATE",), ("ROW", "FILTER")),
    ("row filters and column masks", ("ALTER|CREATE",), ("SET|DROP", "MASK")),
    ("CLUSTER BY AUTO", ("ALTER|CREATE",), ("CLUSTER", "BY", "AUTO")),
    ("deep clones", ("CREATE",), ("DEEP", "CLONE")),
)  # fmt: skip
_FUNCTIONS = {
    "READ_FILES": "read_files",
    "CLOUD_FILES": "read_files",
    "READ_KAFKA": "read_kafka and its like",
    "READ_KINESIS": "read_kafka and its like",
    "READ_PUBSUB": "read_kafka and its like",
    "READ_PULSAR": "read_kafka and its like",
    "REMOTE_QUERY": "remote_query",
    "VECTOR_SEARCH": "vector_search",
    "HTTP_REQUEST": "http_request",
    "SECRET": "secret",
    "TRY_SECRET": "secret",
    "EVENT_LOG": "event_log",
    "IS_ACCOUNT_GROUP_MEMBER": "groups and users",
    "IS_MEMBER": "groups and users",
}
_AI = [
    "ai_query",
    "ai_analyze_sentiment",
    "ai_classify",
    "ai_extract",
    "ai_fix_grammar",
    "ai_forecast",
    "ai_gen",
    "ai_mask",
    "ai_parse_document",
    "ai_similarity",
    "ai_summarize",
    "ai_translate",
]
_FUNCTIONS |= {name.upper(): "AI functions" for name in _AI}
_TABLE_PLACES = (
    "FROM",
    "JOIN",
    "TABLE",
    "INTO",
    "DESCRIBE",
    "DESC",
    "EXTENDED",
    "UPDATE",
    "HISTORY",
    "DETAIL",
    "CACHE",
)


def refuse(statement: Statement) -> None:
    """Raises NotServedHere for what the local workspace does not serve."""
    for name, beginning in _BEGINNINGS:
        if statement.starts(*beginning):
            _no(name)
    for name, beginning, inner in _WITHIN:
        if statement.starts(*beginning) and _has(statement, inner):
            _no(name)
    tokens = statement.tokens
    makes = statement.starts("CREATE", "OR?", "REPLACE?", "EXTERNAL?", "TABLE|SCHEMA|DATABASE|CATALOG")
    for at, token in enumerate(tokens):
        if makes and token.string and tokens[at - 1].is_word("LOCATION"):
            _no("tables with a LOCATION")
        called = at + 1 < len(tokens) and tokens[at + 1].text == "(" and not tokens[at + 1].string
        if called and token.is_word(*_FUNCTIONS) and not (at and tokens[at - 1].text == "."):
            _no(_FUNCTIONS[token.text.upper()], token.text.lower())
        _refuse_cloud(statement, at)
    _refuse_system(statement)


def _has(statement: Statement, sequence: tuple[str, ...]) -> bool:
    count = len(sequence)
    return any(
        all(token.is_word(*word.split("|")) for token, word in zip(statement.tokens[at:], sequence, strict=False))
        for at in range(len(statement.tokens) - count + 1)
    )


def _refuse_cloud(statement: Statement, at: int) -> None:
    """A path in a cloud, where a path may be: after LOCATION or `path`, as a file that is named as a table, and others."""
    token, before = statement.tokens[at], statement.tokens[at - 1] if at else None
    if before is None or cloud_scheme(token.text) is None:
        return
    if (token.quoted and before.text == ".") or (
        token.string and (before.is_word("LOCATION", "DIRECTORY", "PATH", "FROM"))
    ):
        _no("cloud paths", token.text)
    if token.string and before.text in ("=", "path") and at > 1 and statement.tokens[at - 2].text.lower() == "path":
        _no("cloud paths", token.text)


def _refuse_system(statement: Statement) -> None:
    for at, parts in statement.names():
        if len(parts) == 3 and parts[0].text.lower() == SYSTEM_CATALOG and at:
            schema, table = parts[1].text.lower(), parts[2].text.lower()
            at_table = statement.tokens[at - 1].is_word(*_TABLE_PLACES)
            if at_table and schema != "information_schema" and table not in SCHEMAS.get(schema, {}):
                _no("other system tables", f"system.{schema}.{table}")


def _no(name: str, what: str = "") -> None:
    raise NotServedHere(f"{what}: {words(Area.SQL, name)}" if what else words(Area.SQL, name))
