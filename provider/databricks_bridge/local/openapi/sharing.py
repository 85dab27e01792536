"""Operations of the open Delta Sharing server, and of its recipients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from databricks_bridge.local.openapi.known import Known
from databricks_bridge.local.openapi.model import (
    BYTES,
    LINES,
    Operation,
    Operations,
    anything,
    fields,
    listing,
    tagged,
    text,
    under,
    whole,
)
from databricks_bridge.local.server.delta_sharing import FILES, LARGEST_PAGE, SIGNATURE
from databricks_bridge.local.server.delta_sharing_recipients import ACTIVATION, PREFIX

_SHARE = "shares/{share}"
_TABLE = _SHARE + "/schemas/{schema}/tables/{table}"
_PAGED = {"maxResults": whole(0, LARGEST_PAGE), "pageToken": text()}
_TIME = text(description="Such as 2026-01-01T00:00:00Z.")


def operations() -> Operations:
    """What a recipient may ask, with the token of its profile; then who the recipients are, and how they get one."""
    asked = {place: replace(one, example=_example, recipient=True) for place, one in (_lists() | _tables()).items()}
    served = under((f"{PREFIX}{{metastore_id}}",), asked)
    return tagged("delta sharing", {**served, **_file(), **_recipients()})


def _example(known: Known) -> dict[str, Any]:
    """No argument but those of the path, for a call without a version means the newest one."""
    schema, _, table = (known.given_table or "").partition(".")
    return {
        "metastore_id": known.metastore_id,
        "share": known.share,
        "schema": schema or None,
        "table": table or None,
    }


def _lists() -> Operations:
    items = fields("items", items=listing(fields("name", name=text())), nextPageToken=text())
    share = fields("share", share=fields("name", name=text(), id=text()))
    return {
        ("GET", "shares"): Operation("The shares of the recipient", query=_PAGED, answer=items),
        ("GET", _SHARE): Operation("One share", answer=share),
        ("GET", f"{_SHARE}/schemas"): Operation("The schemas of a share", query=_PAGED, answer=items),
        ("GET", f"{_SHARE}/schemas/{{schema}}/tables"): Operation("The tables of a schema", query=_PAGED, answer=items),
        ("GET", f"{_SHARE}/all-tables"): Operation("The tables of all schemas", query=_PAGED, answer=items),
    }


def _tables() -> Operations:
    as_of = {"version": whole(), "timestamp": _TIME}
    hints = {
        "limitHint": whole(0, 2**31 - 1),
        "predicateHints": listing(text()),
        "jsonPredicateHints": text(),
        "startingVersion": whole(),
    }
    return {
        ("GET", f"{_TABLE}/version"): Operation(
            "The newest version, or the first since a time, in the header Delta-Table-Version",
            query={"startingTimestamp": _TIME},
        ),
        ("HEAD", _TABLE): Operation("The newest version, as older clients ask for it"),
        ("GET", f"{_TABLE}/metadata"): Operation(
            "Protocol and metadata, a line each", query=as_of, gives=LINES, answer=text()
        ),
        ("POST", f"{_TABLE}/query"): Operation(
            "Protocol, metadata and a line for each file, with a link to it",
            body={**as_of, **hints},
            gives=LINES,
            answer=text(),
        ),
        ("GET", f"{_TABLE}/changes"): Operation(
            "The change data feed, which is refused here", query={"startingVersion": whole()}, answer=anything()
        ),
    }


def _file() -> Operations:
    return {
        ("GET", f"{FILES}{{rest:path}}"): Operation(
            "A data file, by a link",
            query={"expires": whole(), SIGNATURE: text()},
            required=("expires", SIGNATURE),
            answer=text(format="binary"),
            gives=BYTES,
            open=True,
        ),
    }


def _recipients() -> Operations:
    prefix = "/api/2.1/unity-catalog/recipients"
    token = fields("id", id=text(), activation_url=text(), expiration_time=whole())
    shown = fields("name", "authentication_type", name=text(), authentication_type=text(), tokens=listing(token))
    return {
        ("GET", prefix): Operation(
            "Who reads a share of this metastore", answer=fields("recipients", recipients=listing(shown))
        ),
        ("GET", f"{prefix}/{{name}}"): Operation(
            "One recipient, with the link to its profile", answer=shown, example=lambda known: {"name": known.recipient}
        ),
        ("POST", f"{prefix}/{{name}}/rotate-token"): Operation(
            "A new token for a recipient; the one that it has ends after these seconds",
            body={"existing_token_expire_in_seconds": whole(0, 10**9)},
            required=("existing_token_expire_in_seconds",),
            answer=shown,
            example=lambda known: {"name": known.recipient, "existing_token_expire_in_seconds": 3600},
        ),
        ("GET", f"{ACTIVATION}/{{rest:path}}"): Operation(
            "The content of a profile file, once",
            open=True,
            answer=fields(
                "shareCredentialsVersion",
                "endpoint",
                "bearerToken",
                shareCredentialsVersion=whole(1),
                endpoint=text(),
                bearerToken=text(),
                expirationTime=text(),
            ),
        ),
    }
