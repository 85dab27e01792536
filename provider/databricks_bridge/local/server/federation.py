"""Workload identity: tokens of another issuer that the service principal may exchange for one of this workspace.

A policy is declared first, with the fields of the SDK's `OidcFederationPolicy`. `/local/federation-policies` is local only:
on Databricks an account's administrator declares it, with the account API.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import InvalidParameterValue, ResourceDoesNotExist
from databricks_bridge.local.server.requests import Arguments, read

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
SUBJECT_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:jwt"
ALGORITHMS = ("RS256", "ES256")
"""Signatures that a public key proves; one that a shared secret makes, or none, is never taken."""


class Refused(Exception):
    """The exchange is refused; `error` is the word of OAuth for it (RFC 6749, section 5.2)."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error


def router(workspace: Workspace) -> APIRouter:
    """`/local/federation-policies`: what the service principal of this workspace is trusted by."""
    routes = APIRouter(prefix="/local/federation-policies")
    with workspace.store.transaction() as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS federation_policies (policy_id INTEGER PRIMARY KEY, workspace TEXT, body TEXT)"
        )

    @routes.get("")
    async def listing() -> dict[str, Any]:
        return {"policies": _policies(workspace)}

    @routes.post("")
    async def declare(request: Request) -> dict[str, Any]:
        policy = _policy(await read(request))
        with workspace.store.transaction() as db:
            number = workspace.store.next_id("federation_policy", 1)
            row = (number, workspace.name, json.dumps(policy))
            db.execute("INSERT INTO federation_policies VALUES (?, ?, ?)", row)
        return {"policy_id": number, **policy}

    @routes.delete("/{policy_id}")
    async def delete(policy_id: int) -> dict[str, Any]:
        if all(policy["policy_id"] != policy_id for policy in _policies(workspace)):
            raise ResourceDoesNotExist(f"Federation policy {policy_id} does not exist.")
        with workspace.store.transaction() as db:
            db.execute("DELETE FROM federation_policies WHERE policy_id = ?", (policy_id,))
        return {}

    return routes


def check_exchange(workspace: Workspace, form: Mapping[str, str]) -> None:
    """Returns where a policy of the workspace trusts the token in this form (RFC 8693). Raises Refused."""
    if form.get("subject_token_type") != SUBJECT_TOKEN_TYPE:
        raise Refused("invalid_request", f"subject_token_type must be {SUBJECT_TOKEN_TYPE}")
    if form.get("client_id") != workspace.credentials.client_id:
        raise Refused("invalid_client", "client_id is not the service principal of this workspace")
    policies = _policies(workspace)
    if not policies:
        raise Refused("invalid_grant", "no federation policy is declared (/local/federation-policies)")
    refusals = [_refusal(workspace, policy, form.get("subject_token", "")) for policy in policies]
    if None not in refusals:
        said = "; ".join(sorted({str(reason) for reason in refusals}))
        raise Refused("invalid_grant", f"the token fits no federation policy: {said}")


def _refusal(workspace: Workspace, policy: Mapping[str, Any], token: str) -> str | None:
    """Why this policy does not trust the token, or None."""
    import jwt

    try:
        key_id = jwt.get_unverified_header(token).get("kid")
        for key in jwt.PyJWKSet.from_json(policy["jwks_json"]).keys:
            if key_id in (None, key.key_id):
                with suppress(jwt.InvalidSignatureError):
                    return _refused_claims(workspace, policy, _claims(policy, token, key))
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        return str(error)
    return "none of the policy's keys has signed it"


def _claims(policy: Mapping[str, Any], token: str, key: Any) -> dict[str, Any]:
    import jwt

    # times by the deployment's own clock, which a fault can move, and not by PyJWT's
    options: Any = {"require": ["exp", "iss", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False}
    return jwt.decode(
        token,
        key,
        algorithms=list(ALGORITHMS),
        audience=policy["audiences"],
        issuer=policy["issuer"],
        options=options,
    )


def _refused_claims(workspace: Workspace, policy: Mapping[str, Any], claims: Mapping[str, Any]) -> str | None:
    claim = policy["subject_claim"]
    if claims.get(claim) != policy["subject"]:
        return f"its {claim} is not the subject of the policy"
    return None if workspace.now() < float(claims["exp"]) else "it has expired"


def _policies(workspace: Workspace) -> list[dict[str, Any]]:
    rows = workspace.store.query(
        "SELECT policy_id, body FROM federation_policies WHERE workspace = ? ORDER BY policy_id", (workspace.name,)
    )
    return [{"policy_id": row["policy_id"], **json.loads(row["body"])} for row in rows]


def _policy(given: Arguments) -> dict[str, Any]:
    import jwt

    policy: dict[str, Any] = {name: given.text(name) for name in ("issuer", "subject", "jwks_json")}
    policy |= {"audiences": given.texts("audiences"), "subject_claim": given.text("subject_claim") or "sub"}
    if missing := sorted(name for name, value in policy.items() if not value):
        raise InvalidParameterValue(f"{', '.join(missing)}: a policy that leaves it out is not served here")
    try:
        jwt.PyJWKSet.from_json(policy["jwks_json"])
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidParameterValue(f"jwks_json is no set of public keys: {error}") from None
    return policy
