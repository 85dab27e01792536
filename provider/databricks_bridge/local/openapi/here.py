"""Operations that Databricks does not have: below /local, for tests and for people."""

from __future__ import annotations

import json

from databricks_bridge.local.faults import KINDS
from databricks_bridge.local.openapi.model import (
    PAGE,
    Operation,
    Operations,
    anything,
    fields,
    flag,
    listing,
    number,
    one_of,
    tagged,
    text,
    under,
    whole,
)
from databricks_bridge.local.runs.holds import PLACES
from databricks_bridge.local.triggers.model import EVENTS
from databricks_bridge.local.triggers.switches import NAMES

_ID = whole(1, 10**9)
_PUBLIC_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
    "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
}
"""The example of RFC 7517, appendix A.1: nobody signs with it."""


def operations() -> Operations:
    """All of them. What is ended in an example has been begun by the one before it."""
    found = {**_workspace(), **_triggers(), **_holds_and_faults(), **_shares(), **_policies()}
    return tagged("local only", under(("/local",), found))


def _workspace() -> Operations:
    return {
        ("GET", "openapi.json"): Operation("This description", answer=fields("openapi", openapi=text())),
        ("GET", "info"): Operation(
            "What this workspace is", answer=fields("workspace", "engine", workspace=text(), engine=text())
        ),
        ("GET", "health"): Operation("That it is up, as a page", gives=PAGE, answer=text(), open=True),
        ("POST", "sign-in-links"): Operation(
            "A link that signs a browser in, once",
            body={"next": text()},
            answer=fields("url", "expires_in", url=text(), expires_in=whole()),
            example=lambda known: {"next": "/local/jobs"},
        ),
    }


def _triggers() -> Operations:
    switches = fields(**dict.fromkeys(NAMES, flag()))
    model = text(pattern="^[a-z]{1,9}\\.[a-z]{1,9}\\.[a-z]{1,9}$")
    return {
        ("GET", "switches"): Operation("What can be switched, and how it stands", answer=switches),
        ("POST", "switches"): Operation(
            "Switch",
            body=dict.fromkeys(NAMES, flag()),
            answer=switches,
            example=lambda known: {"every_commit": False},
        ),
        ("POST", "test-trigger"): Operation(
            "Look at the triggers of a job, without a run",
            body={"job_id": whole(1)},
            required=("job_id",),
            answer=fields("triggers", triggers=listing(anything())),
            example=lambda known: {"job_id": known.job},
        ),
        ("POST", "model-events"): Operation(
            "Declare that something has happened to a model",
            body={"event": one_of(*EVENTS), "model": model, "alias": text()},
            required=("event", "model"),
            answer=fields("event", "model", event=one_of(*EVENTS), model=text()),
            example=lambda known: {"event": "MODEL_VERSION_READY", "model": "main.models.delays"},
        ),
    }


def _holds_and_faults() -> Operations:
    fault = {
        "kind": one_of(*KINDS),
        "seconds": number(),
        "count": whole(1, 10**6),
        "path": text(),
        "delay_seconds": number(),
        "privilege": one_of("SELECT", "USE_SCHEMA", "USE_CATALOG"),
        "securable": text(),
    }
    return {
        ("POST", "holds"): Operation(
            "Stop the next run of a job at a place, until it is released",
            body={"job_name": text(minLength=1), "at": one_of(*PLACES)},
            required=("job_name", "at"),
            answer=fields("hold_id", hold_id=whole(1)),
            example=lambda known: {"job_name": "no-such-job", "at": PLACES[0]},
        ),
        ("GET", "holds"): Operation("All holds", answer=fields("holds", holds=listing(anything()))),
        ("DELETE", "holds/{hold_id}"): Operation(
            "Release a hold", path={"hold_id": _ID}, answer=anything(), example=lambda known: {"hold_id": known.hold}
        ),
        ("POST", "faults"): Operation(
            "Declare a fault",
            body=fault,
            required=("kind",),
            answer=fields("fault_id", fault_id=whole(1), kind=one_of(*KINDS)),
            example=lambda known: {"kind": "rate_limit", "count": 1, "path": "/no-such-path"},
        ),
        ("GET", "faults"): Operation("All faults", answer=fields("faults", faults=listing(anything()))),
        ("DELETE", "faults/{fault_id}"): Operation(
            "End a fault", path={"fault_id": _ID}, answer=anything(), example=lambda known: {"fault_id": known.fault}
        ),
        ("DELETE", "faults"): Operation("End all faults", answer=anything()),
    }


def _shares() -> Operations:
    name = text(pattern="^[a-z][a-z0-9_]{0,20}$")
    return {
        ("GET", "shares"): Operation(
            "What this metastore reads of others", answer=fields("shares", shares=listing(anything()))
        ),
        ("POST", "shares"): Operation(
            "Read schemas of another metastore as a catalog of this one",
            body={
                "catalog": name,
                "source_metastore": text(),
                "source_catalog": name,
                "schemas": listing(name),
                "lag": text(),
                "history": flag(),
            },
            required=("catalog", "source_metastore", "source_catalog"),
            answer=fields("catalog", catalog=text()),
        ),
        ("POST", "shares/{catalog}/publish"): Operation(
            "Publish commits of a share now",
            body={"max_commits": whole(1, 10**6)},
            answer=fields("published", published=anything()),
            example=lambda known: {"catalog": known.shared, "max_commits": 10},
        ),
        ("DELETE", "shares/{catalog}"): Operation(
            "End a share, and its catalog with it", answer=anything(), example=lambda known: {"catalog": known.shared}
        ),
    }


def _policies() -> Operations:
    policy = {
        "issuer": text(minLength=1),
        "subject": text(minLength=1),
        "audiences": listing(text(minLength=1), 1),
        "subject_claim": text(),
        "jwks_json": text(description="A set of public keys (RFC 7517), as text."),
    }
    return {
        ("GET", "federation-policies"): Operation(
            "Whose tokens the service principal may exchange", answer=fields("policies", policies=listing(anything()))
        ),
        ("POST", "federation-policies"): Operation(
            "Declare a federation policy",
            body=policy,
            required=("issuer", "subject", "audiences", "jwks_json"),
            answer=fields("policy_id", policy_id=whole(1)),
            example=lambda known: {
                "issuer": "https://issuer.example",
                "subject": "somebody",
                "audiences": ["databricks"],
                "jwks_json": json.dumps({"keys": [_PUBLIC_KEY]}),
            },
        ),
        ("DELETE", "federation-policies/{policy_id}"): Operation(
            "Take a federation policy back",
            path={"policy_id": _ID},
            answer=anything(),
            example=lambda known: {"policy_id": known.policy},
        ),
    }
