"""A token of another issuer is exchanged for one of the workspace only where a declared policy trusts it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from databricks_bridge.core.errors import WorkspaceError
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.rest import Rest
from databricks_bridge.local.server.federation import GRANT, SUBJECT_TOKEN_TYPE
from tests.hooks.logins_kit import Issuer
from tests.local.local_kit import Notebooks

PATH = "/local/federation-policies"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("federation")
    with deployment_in_thread(home, ["ops", "met"], engine=InstantEngine(Notebooks().run)) as deployment:
        yield deployment


@pytest.fixture
def rest(up: Deployment) -> Any:
    """The workspace ops, without policies afterwards."""
    rest = Rest("ops", up.host("ops"), up.token("ops"))
    yield rest
    for policy in rest.call("GET", PATH)["policies"]:
        rest.call("DELETE", f"{PATH}/{policy['policy_id']}")


def exchange(up: Deployment, token: str, **changes: str) -> httpx.Response:
    form = {"grant_type": GRANT, "subject_token_type": SUBJECT_TOKEN_TYPE, "subject_token": token, "scope": "all-apis"}
    form |= {"client_id": up.workspaces["ops"].credentials.client_id} | changes
    return httpx.post(f"{up.host('ops')}/oidc/v1/token", data=form)


def listed(up: Deployment, token: str) -> int:
    return httpx.get(f"{up.host('ops')}/api/2.2/jobs/list", headers={"Authorization": f"Bearer {token}"}).status_code


def test_a_token_that_the_policy_trusts_is_exchanged(up: Deployment, rest: Rest) -> None:
    issuer = Issuer()
    rest.call("POST", PATH, issuer.policy())
    answer = exchange(up, issuer.token())
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["token_type"], body["expires_in"], body["scope"]) == ("Bearer", 3600, "all-apis")
    assert body["issued_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
    assert listed(up, body["access_token"]) == 200
    assert listed(up, issuer.token()) == 403


def test_the_sdk_logs_in_with_a_file(
    up: Deployment, rest: Rest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.core import Config

    issuer, file = Issuer(), tmp_path / "token"
    rest.call("POST", PATH, issuer.policy())
    file.write_text(issuer.token())
    config = Config(
        host=up.host("ops"),
        client_id=up.workspaces["ops"].credentials.client_id,
        oidc_token_filepath=str(file),
        auth_type="file-oidc",
        retry_timeout_seconds=5,
    )
    assert WorkspaceClient(config=config).current_user.me().user_name == "local-workspace"


def test_one_of_several_policies_and_one_of_several_keys_is_enough(up: Deployment, rest: Rest) -> None:
    issuer, other = Issuer(), Issuer()
    rest.call("POST", PATH, other.policy(issuer="https://other.example.test"))
    keys = [key for one in (other, issuer) for key in json.loads(one.policy()["jwks_json"])["keys"]]
    rest.call("POST", PATH, issuer.policy(jwks_json=json.dumps({"keys": keys}), audiences=["a", "databricks"]))
    assert exchange(up, issuer.token(aud=["databricks", "b"])).status_code == 200


ISSUER = Issuer()


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (ISSUER.token(sub="system:serviceaccount:etl:another"), "its sub is not the subject of the policy"),
        (ISSUER.token(iss="https://other.example.test"), "Invalid issuer"),
        (ISSUER.token(aud="another"), "Audience doesn't match"),
        (ISSUER.token(seconds=-1), "it has expired"),
        (Issuer().token(), "none of the policy's keys has signed it"),
        ("", "Not enough segments"),
        ("a.b.c", "Invalid"),
        (ISSUER.token().rpartition(".")[0] + ".", "none of the policy's keys has signed it"),
    ],
)
def test_every_other_token_is_refused(up: Deployment, rest: Rest, token: str, said: str) -> None:
    rest.call("POST", PATH, ISSUER.policy())
    answer = exchange(up, token)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant"), answer.text
    assert said in answer.json()["error_description"]


@pytest.mark.parametrize("claims", [{"exp": "soon"}, {"exp": None}, {"exp": {}}, {}])
def test_a_time_that_is_none_is_no_time(up: Deployment, rest: Rest, claims: dict[str, Any]) -> None:
    import jwt

    rest.call("POST", PATH, ISSUER.policy())
    body = {"iss": ISSUER.url, "sub": ISSUER.policy()["subject"], "aud": "databricks", **claims}
    token = jwt.api_jws.encode(json.dumps(body).encode(), ISSUER.key, algorithm="ES256")
    answer = exchange(up, token)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant"), answer.text


def test_a_signature_that_anyone_can_make_is_none(up: Deployment, rest: Rest) -> None:
    import jwt

    policy = ISSUER.policy()
    rest.call("POST", PATH, policy)
    body = {"iss": ISSUER.url, "sub": policy["subject"], "aud": "databricks", "exp": int(time.time()) + 600}
    for token in (
        jwt.encode(body, None, algorithm="none"),
        jwt.encode(body, json.loads(policy["jwks_json"])["keys"][0]["x"].ljust(64), algorithm="HS256"),
    ):
        assert exchange(up, token).status_code == 400


def test_nothing_is_trusted_until_a_policy_says_so_nor_in_another_workspace(up: Deployment, rest: Rest) -> None:
    issuer = Issuer()
    assert "no federation policy is declared" in exchange(up, issuer.token()).json()["error_description"]
    Rest("met", up.host("met"), up.token("met")).call("POST", PATH, issuer.policy())
    assert exchange(up, issuer.token()).status_code == 400
    made = rest.call("POST", PATH, issuer.policy())
    assert exchange(up, issuer.token()).status_code == 200
    rest.call("DELETE", f"{PATH}/{made['policy_id']}")
    assert exchange(up, issuer.token()).status_code == 400


def test_the_form_has_to_be_whole(up: Deployment, rest: Rest) -> None:
    issuer = Issuer()
    rest.call("POST", PATH, issuer.policy())
    stranger = exchange(up, issuer.token(), client_id="another")
    assert (stranger.status_code, stranger.json()["error"]) == (401, "invalid_client")
    kind = exchange(up, issuer.token(), subject_token_type="urn:ietf:params:oauth:token-type:saml2")
    assert (kind.status_code, kind.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"issuer": ""}, "issuer"),
        ({"subject": None}, "subject"),
        ({"audiences": []}, "audiences"),
        ({"jwks_json": "{}"}, "jwks_json is no set of public keys"),
        ({"jwks_json": "[]"}, "jwks_json is no set of public keys"),
        ({"jwks_json": "nothing"}, "jwks_json is no set of public keys"),
    ],
)
def test_a_policy_that_would_trust_anything_is_refused(rest: Rest, change: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkspaceError, match=said) as refused:
        rest.call("POST", PATH, ISSUER.policy() | change)
    assert refused.value.status == 400


def test_policies_outlive_a_restart(tmp_path: Path) -> None:
    issuer = Issuer()
    for first in (True, False):
        with deployment_in_thread(tmp_path / "home", ["ops"], engine=InstantEngine(Notebooks().run)) as up:
            rest = Rest("ops", up.host("ops"), up.token("ops"))
            if first:
                rest.call("POST", PATH, issuer.policy())
            assert exchange(up, issuer.token()).status_code == 200
