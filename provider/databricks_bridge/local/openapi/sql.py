"""Operations of SQL: statements and the warehouse that runs them."""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.openapi.known import Known
from databricks_bridge.local.openapi.model import (
    Operation,
    Operations,
    anything,
    fields,
    listing,
    one_of,
    tagged,
    text,
    under,
    whole,
)
from databricks_bridge.local.sql.formats import FORMATS

_STATES = ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "CLOSED")


def operations() -> Operations:
    """Statements and warehouses. Both lists are served with a slash at their end too, as some clients write them."""
    return {
        **tagged("sql statements", under(("/api/2.0/sql/statements",), _statements())),
        **tagged("sql warehouses", under(("/api/2.0/sql/warehouses",), _warehouses())),
        **tagged("sql statements", _sessions()),
        **tagged("sql statements", _links()),
    }


def _statements() -> Operations:
    statement = fields(
        "statement_id",
        "status",
        statement_id=text(),
        status=fields("state", state=one_of(*_STATES)),
        manifest=anything(),
        result=anything(),
    )
    parameter = fields("name", name=text(pattern="^[a-z_]{1,9}$"), value=text(), type=one_of("STRING", "BIGINT"))
    execute = Operation(
        "Run a statement, and wait for it for a while",
        body={
            "warehouse_id": text(),
            "statement": text(minLength=1),
            "wait_timeout": one_of("0s", "5s", "10s"),
            "on_wait_timeout": one_of("CONTINUE", "CANCEL"),
            "catalog": text(),
            "schema": text(),
            "parameters": listing(parameter),
            "row_limit": whole(1),
            "byte_limit": whole(1),
            "disposition": one_of("INLINE", "EXTERNAL_LINKS"),
            "format": one_of(*FORMATS),
        },
        required=("warehouse_id", "statement"),
        answer=statement,
        example=lambda known: {"warehouse_id": known.warehouse, "statement": "SELECT 1 AS n", "wait_timeout": "10s"},
    )
    return {
        ("POST", ""): execute,
        ("GET", "{statement_id}"): Operation(
            "The state of a statement, and the first chunk of its result", answer=statement
        ),
        ("GET", "{statement_id}/result/chunks/{chunk_index}"): Operation(
            "One chunk of a result",
            path={"chunk_index": whole(0, 10**6)},
            answer=anything(),
            example=lambda known: {"chunk_index": 0},
        ),
        ("POST", "{statement_id}/cancel"): Operation("Stop a statement", answer=anything()),
        ("DELETE", "{statement_id}"): Operation("Close a statement: it is forgotten", answer=anything()),
    }


def _sessions() -> Operations:
    return {
        ("POST", "/api/2.0/sql/sessions"): Operation(
            "Open a session: a catalog and a schema for its statements",
            body={"warehouse_id": text(), "catalog": text(), "schema": text()},
            required=("warehouse_id",),
            answer=fields("session_id", session_id=text()),
            example=lambda known: {"warehouse_id": known.warehouse},
        ),
        ("DELETE", "/api/2.0/sql/sessions/{session_id}"): Operation("Close a session", answer=anything()),
        **{
            ("POST", f"/sql/{place}/{{rest:path}}"): Operation("Thrift, which is not served", answer=anything())
            for place in ("1.0", "protocolv1")
        },
    }


def _links() -> Operations:
    return {
        ("GET", "/local/results/{statement_id}/{index}"): Operation(
            "A chunk behind a link, which is signed and ends: the address is `external_link` of a chunk, whole",
            query={"expires": whole(), "signature": text()},
            required=("expires", "signature"),
            path={"index": whole(0, 10**6)},
            open=True,
        ),
    }


def _warehouses() -> Operations:
    warehouse = fields("id", "name", "state", id=text(), name=text(), state=one_of("RUNNING", "STOPPED"))

    def the_one(known: Known) -> dict[str, Any]:
        return {"given": known.warehouse}

    return {
        ("GET", ""): Operation("The warehouses: one", answer=fields("warehouses", warehouses=listing(warehouse))),
        ("GET", "{given}"): Operation("One warehouse", answer=warehouse, example=the_one),
        ("POST", "{given}/stop"): Operation("Stop it", answer=anything(), example=the_one),
        ("POST", "{given}/start"): Operation("Start it", answer=anything(), example=the_one),
    }
