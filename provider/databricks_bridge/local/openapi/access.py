"""Operations on who may call: tokens, identity, permissions of jobs."""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.openapi.known import Known
from databricks_bridge.local.openapi.model import (
    FORM,
    Operation,
    Operations,
    anything,
    fields,
    listing,
    one_of,
    tagged,
    text,
    whole,
)
from databricks_bridge.local.server.permissions import LEVELS

_JOB = {"kind": one_of("jobs"), "object_id": text(pattern="^[1-9][0-9]{0,14}$")}


def operations() -> Operations:
    """Discovery, tokens, the caller, permissions."""
    return {**tagged("identity", _identity()), **tagged("permissions", _permissions())}


def _identity() -> Operations:
    return {
        ("GET", "/.well-known/databricks-config"): Operation(
            "Where tokens are given",
            open=True,
            answer=fields("oidc_endpoint", oidc_endpoint=text(), workspace_id=text()),
        ),
        ("GET", "/oidc/.well-known/oauth-authorization-server"): Operation(
            "What the token service can do", open=True, answer=fields("token_endpoint", token_endpoint=text())
        ),
        ("POST", "/oidc/v1/token"): Operation(
            "A token for the service principal; its secret comes in the form or by Basic authentication",
            open=True,
            takes=FORM,
            body={
                "grant_type": one_of("client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"),
                "client_id": text(),
                "client_secret": text(),
                "scope": text(),
                "subject_token": text(),
                "subject_token_type": text(),
            },
            required=("grant_type",),
            answer=fields("access_token", access_token=text(), token_type=text(), expires_in=whole()),
        ),
        ("GET", "/api/2.0/preview/scim/v2/Me"): Operation(
            "Who the caller is", answer=fields("userName", userName=text())
        ),
    }


def _permissions() -> Operations:
    path = "/api/2.0/permissions/{kind}/{object_id}"
    shown = fields("object_id", object_id=text(), access_control_list=listing(anything()))
    entry = fields("permission_level", user_name=text(minLength=1), permission_level=one_of(*LEVELS))
    given = {"access_control_list": listing(entry)}

    def job(known: Known) -> dict[str, Any]:
        return {"kind": "jobs", "object_id": None if known.job is None else str(known.job)}

    def with_one(known: Known) -> dict[str, Any]:
        return {**job(known), "access_control_list": [{"user_name": "somebody", "permission_level": "CAN_VIEW"}]}

    return {
        ("GET", path): Operation("Who may do what with a job", path=_JOB, answer=shown, example=job),
        ("GET", f"{path}/permissionLevels"): Operation(
            "The levels that there are",
            path=_JOB,
            answer=fields("permission_levels", permission_levels=listing(anything())),
            example=job,
        ),
        ("PUT", path): Operation("Set the permissions anew", path=_JOB, body=given, answer=shown, example=with_one),
        ("PATCH", path): Operation("Add to the permissions", path=_JOB, body=given, answer=shown, example=with_one),
    }
