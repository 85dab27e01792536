"""Operations of Unity Catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from databricks_bridge.local.openapi.known import Known
from databricks_bridge.local.openapi.model import (
    Example,
    Operation,
    Operations,
    anything,
    fields,
    flag,
    listing,
    one_of,
    ref,
    tagged,
    text,
    texts_by_name,
    under,
    whole,
)
from databricks_bridge.local.server.unity_catalog_grants import KINDS, USER_PRIVILEGES

_NAME = text(pattern="^[a-z][a-z0-9_]{0,20}$", examples=["main"])
_MADE = "made_by_example"
_KIND = {"kind": one_of(*KINDS)}


def operations() -> Operations:
    """All of them. What is deleted in an example has been made by the one before it."""
    found = {**_containers(), **_tables(), **_grants(), **_others()}
    in_both = ("/api/2.0/unity-catalog", "/api/2.1/unity-catalog")
    return tagged("unity catalog", {**under(("/api/2.1/unity-catalog",), found), **under(in_both, _credentials())})


def _containers() -> Operations:
    paged = {"max_results": whole(), "page_token": text()}
    made = {"name": _NAME, "comment": text()}
    force = {"force": flag()}

    def catalog(known: Known) -> dict[str, Any]:
        return {"name": _MADE}

    def schema(known: Known) -> dict[str, Any]:
        return {"name": None if known.catalog is None else f"{known.catalog}.{_MADE}"}

    def volume(known: Known) -> dict[str, Any]:
        return {"name": None if known.volume_schema is None else f"{known.volume_schema}.{_MADE}"}

    return {
        ("GET", "metastore_summary"): Operation(
            "The metastore of this workspace",
            answer=fields("metastore_id", "name", metastore_id=text(), name=text()),
        ),
        ("GET", "catalogs"): Operation(
            "All catalogs", query=paged, answer=fields("catalogs", catalogs=listing(ref("Securable")))
        ),
        ("POST", "catalogs"): Operation(
            "Make a catalog",
            body={**made, "properties": texts_by_name()},
            required=("name",),
            answer=ref("Securable"),
            example=lambda known: {"name": _MADE, "comment": "made by an example"},
        ),
        ("GET", "catalogs/{name}"): Operation("One catalog", answer=ref("Securable"), example=catalog),
        ("PATCH", "catalogs/{name}"): _changed("catalog", catalog),
        ("DELETE", "catalogs/{name}"): Operation(
            "Delete a catalog", query=force, answer=anything(), example=lambda known: {"name": _MADE, "force": True}
        ),
        ("GET", "schemas"): Operation(
            "The schemas of a catalog",
            query={"catalog_name": _NAME, **paged},
            required=("catalog_name",),
            answer=fields("schemas", schemas=listing(ref("Securable"))),
            example=lambda known: {"catalog_name": known.catalog},
        ),
        ("POST", "schemas"): Operation(
            "Make a schema",
            body={**made, "catalog_name": _NAME, "properties": texts_by_name()},
            required=("name", "catalog_name"),
            answer=ref("Securable"),
            example=lambda known: {"name": _MADE, "catalog_name": known.catalog},
        ),
        ("GET", "schemas/{name}"): Operation("One schema", answer=ref("Securable"), example=schema),
        ("PATCH", "schemas/{name}"): _changed("schema", schema),
        ("DELETE", "schemas/{name}"): Operation(
            "Delete a schema", query=force, answer=anything(), example=lambda known: {**schema(known), "force": True}
        ),
        ("GET", "volumes"): Operation(
            "The volumes of a schema",
            query={"catalog_name": _NAME, "schema_name": _NAME, **paged},
            required=("catalog_name", "schema_name"),
            answer=fields("volumes", volumes=listing(ref("Securable"))),
            example=lambda known: _schema_of_volumes(known),
        ),
        ("POST", "volumes"): Operation(
            "Make a volume",
            body={**made, "catalog_name": _NAME, "schema_name": _NAME, "volume_type": one_of("MANAGED")},
            required=("name", "catalog_name", "schema_name"),
            answer=ref("Securable"),
            example=lambda known: {"name": _MADE, **_schema_of_volumes(known), "volume_type": "MANAGED"},
        ),
        ("GET", "volumes/{name}"): Operation("One volume", answer=ref("Securable"), example=volume),
        ("PATCH", "volumes/{name}"): _changed("volume", volume),
        ("DELETE", "volumes/{name}"): Operation("Delete a volume", answer=anything(), example=volume),
    }


def _changed(kind: str, named: Example) -> Operation:
    return Operation(
        f"Change the comment, owner or properties of a {kind}",
        body={"comment": text(), "owner": text(minLength=1)},
        answer=ref("Securable"),
        example=lambda known: {**named(known), "comment": "changed by an example"},
    )


def _schema_of_volumes(known: Known) -> dict[str, Any]:
    catalog, _, schema = (known.volume_schema or "").partition(".")
    return {"catalog_name": catalog or None, "schema_name": schema or None}


def _tables() -> Operations:
    def named(known: Known) -> dict[str, Any]:
        return {"name": known.table}

    def in_parts(known: Known) -> dict[str, Any]:
        return dict(zip(("catalog", "schema", "table"), (known.table or "").split("."), strict=False))

    return {
        ("GET", "tables"): Operation(
            "The tables and views of a schema",
            query={
                "catalog_name": _NAME,
                "schema_name": _NAME,
                "omit_columns": flag(),
                "omit_properties": flag(),
                "max_results": whole(),
                "page_token": text(),
            },
            required=("catalog_name", "schema_name"),
            answer=fields("tables", tables=listing(ref("Securable"))),
            example=lambda known: {
                "catalog_name": known.catalog,
                "schema_name": (known.schema or ".").rpartition(".")[2] or None,
            },
        ),
        ("GET", "tables/{name}"): Operation(
            "One table, read from its Delta log",
            query={"include_manifest_capabilities": flag(), "include_delta_metadata": flag()},
            answer=ref("Securable"),
            example=named,
        ),
        ("PATCH", "tables/{name}"): Operation(
            "Change the owner of a table",
            body={"owner": text(minLength=1)},
            answer=anything(),
            example=lambda known: {**named(known), "owner": known.user},
        ),
        ("GET", "tables/{name}/exists"): Operation(
            "Whether there is such a table", answer=fields("table_exists", table_exists=flag()), example=named
        ),
        ("GET", "delta/v1/config"): Operation(
            "What the Delta API of a catalog can do",
            query={"catalog": _NAME},
            required=("catalog",),
            answer=fields("endpoints", endpoints=listing(text())),
            example=lambda known: {"catalog": known.catalog},
        ),
        ("GET", "delta/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"): Operation(
            "The newest version of a table",
            answer=fields("latest-table-version", **{"latest-table-version": whole(), "metadata": anything()}),
            example=in_parts,
        ),
        ("DELETE", "tables/{name}"): Operation("Drop a table", answer=anything(), example=named),
    }


def _grants() -> Operations:
    grants = fields("privilege_assignments", privilege_assignments=listing(anything()))
    privileges = listing(one_of(*USER_PRIVILEGES))
    change = fields("principal", principal=text(minLength=1), add=privileges, remove=privileges)

    def on_catalog(more: dict[str, Any]) -> Callable[[Known], dict[str, Any]]:
        return lambda known: {"kind": "catalog", "name": known.catalog, **more}

    added = {"changes": [{"principal": "somebody", "add": ["USE_CATALOG"]}]}
    return {
        ("GET", "permissions/{kind}/{name}"): Operation(
            "What has been granted on it", {"principal": text()}, path=_KIND, answer=grants, example=on_catalog({})
        ),
        ("GET", "effective-permissions/{kind}/{name}"): Operation(
            "What is granted on it and above it",
            {"principal": text()},
            path=_KIND,
            answer=grants,
            example=on_catalog({}),
        ),
        ("PATCH", "permissions/{kind}/{name}"): Operation(
            "Grant and revoke",
            path=_KIND,
            body={"changes": listing(change)},
            answer=grants,
            example=on_catalog(added),
        ),
    }


def _others() -> Operations:
    location = fields("name", "url", name=text(), url=text())
    return {
        ("GET", "external-locations"): Operation(
            "The one external location, which has the volumes",
            answer=fields("external_locations", external_locations=listing(location)),
        ),
        ("GET", "external-locations/{name}"): Operation(
            "One external location", answer=location, example=lambda known: {"name": "local"}
        ),
        ("GET", "shares"): Operation("What this metastore shares", answer=fields("shares", shares=listing(anything()))),
        ("GET", "shares/{name}"): Operation(
            "One share",
            query={"include_shared_data": flag()},
            answer=fields("name", name=text()),
            example=lambda known: {"name": known.share, "include_shared_data": True},
        ),
    }


def _credentials() -> Operations:
    answer = fields("url", "expiration_time", url=text(), expiration_time=whole())
    return {
        ("POST", "temporary-table-credentials"): Operation(
            "The place of a table",
            body={"table_id": text(), "operation": one_of("READ", "READ_WRITE")},
            required=("table_id", "operation"),
            answer=answer,
            example=lambda known: {"table_id": known.table_id, "operation": "READ"},
        ),
        ("POST", "temporary-volume-credentials"): Operation(
            "The place of a volume",
            body={"volume_id": text(), "operation": one_of("READ_VOLUME", "WRITE_VOLUME")},
            required=("volume_id", "operation"),
            answer=answer,
            example=lambda known: {"volume_id": known.volume_id, "operation": "READ_VOLUME"},
        ),
        ("POST", "temporary-path-credentials"): Operation(
            "A place below the external location",
            body={"url": text(minLength=1), "operation": one_of("PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE")},
            required=("url", "operation"),
            answer=answer,
            example=lambda known: {"url": known.volume_url, "operation": "PATH_READ"},
        ),
    }
