"""Recipients of open sharing and their profiles, by the official SDK; and our own client on a profile, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from databricks_bridge.core.errors import NotAuthenticated, NotFound
from databricks_bridge.delta.resolve import open_table
from databricks_bridge.local.deployment import Deployment
from tests.local.catalog.sharing_kit import (
    profile_of,
    publish,
    recipient,
    share,
    sharing_deployment,
    write,
)
from tests.local.local_kit import client

HOUR = 3600
YEAR = 365 * 24 * HOUR


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with sharing_deployment(tmp_path_factory.mktemp("recipients") / "home") as deployment:
        write(deployment, "flights", 1)
        share(deployment, "ops_share", lag="held")
        publish(deployment, "ops_share")
        yield deployment


def shares_seen(profile: dict[str, str], token: str | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {token or profile['bearerToken']}"}
    return httpx.get(f"{profile['endpoint']}/shares", headers=headers)


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    return answer.status_code, answer.json()["errorCode"], answer.headers["www-authenticate"]


def test_who_reads_a_share_is_a_recipient_and_gets_its_profile_by_a_link_once(up: Deployment) -> None:
    from databricks.sdk.errors import NotFound as NoSuch

    ops = client(up, "ops")
    assert [one.name for one in ops.recipients.list()] == ["analytics"]
    assert list(client(up, "analytics").recipients.list()) == []
    found = ops.recipients.get("Analytics")
    assert (found.name, found.authentication_type.value, found.activated) == ("analytics", "TOKEN", False)
    assert [one.id for one in ops.recipients.get("analytics").tokens] == [found.tokens[0].id]
    link = found.tokens[0].activation_url
    profile = ops.recipient_activation.retrieve_token(link).as_dict()
    assert profile["shareCredentialsVersion"] == 1
    metastore = ops.metastores.summary().metastore_id
    assert profile["endpoint"] == f"{up.host('ops')}/api/2.0/delta-sharing/metastores/{metastore}"
    assert shares_seen(profile).json()["items"][0]["name"] == "ops_share"
    assert shares_seen({**profile, "endpoint": profile["endpoint"][:-1] + "x"}).status_code == 404
    with pytest.raises(NoSuch):
        ops.recipient_activation.retrieve_token(link)
    after = ops.recipients.get("analytics")
    assert (after.activated, after.tokens[0].activation_url) == (True, None)
    with pytest.raises(NoSuch, match="Recipient 'met' does not exist"):
        ops.recipients.get("met")


def test_only_a_token_that_was_given_out_and_has_not_expired_opens(up: Deployment) -> None:
    from databricks.sdk.errors import InvalidParameterValue

    ops = client(up, "ops")
    profile = profile_of(up)
    for token in ("dsr" + "0" * 48, up.token("ops"), up.token("analytics")):
        assert refusal(shares_seen(profile, token)) == (401, "UNAUTHENTICATED", "Bearer")
    assert refusal(httpx.get(f"{profile['endpoint']}/shares")) == (401, "UNAUTHENTICATED", "Bearer")
    no_api = {"authorization": f"Bearer {profile['bearerToken']}"}
    assert httpx.get(f"{up.host('ops')}/api/2.1/unity-catalog/shares", headers=no_api).status_code == 403
    newer = profile_of(up)
    assert shares_seen(profile).status_code == shares_seen(newer).status_code == 200
    ops.recipients.rotate_token("analytics", 0)
    for one in (profile, newer):
        assert "has expired" in shares_seen(one).json()["message"]
        assert refusal(shares_seen(one)) == (401, "UNAUTHENTICATED", "Bearer")
    with pytest.raises(InvalidParameterValue):
        ops.recipients.rotate_token("analytics", -1)


def test_a_token_ends_when_its_profile_says_so_and_is_kept_nowhere(up: Deployment) -> None:
    profile = profile_of(up)
    faults = client(up, "ops").api_client
    fault = faults.do("POST", "/local/faults", body={"kind": "clock", "seconds": YEAR + 1})
    assert shares_seen(profile).status_code == 401
    faults.do("DELETE", f"/local/faults/{fault['fault_id']}")
    assert shares_seen(profile).status_code == 200
    kept = [file for file in up.layout.home.rglob("*") if file.is_file()]
    assert kept
    assert not [file.name for file in kept if profile["bearerToken"].encode() in file.read_bytes()]


def test_a_share_that_was_ended_is_not_published_once_more(up: Deployment) -> None:
    """Whoever was about to publish it, as the loop does each second, comes too late."""
    share(up, "ops_brief")
    shares = up.workspaces["ops"].shares
    brief = shares.find("analytics", "ops_brief")
    assert brief is not None
    folder = up.layout.metastore_root("analytics") / "ops_brief"
    assert folder.is_dir()
    shares.remove(brief)
    assert shares.publish(brief) == {}
    assert not folder.exists()


async def test_our_own_client_sees_versions_as_they_are_published_until_the_share_ends(
    up: Deployment, tmp_path: Path
) -> None:
    file = tmp_path / "ops.share"
    file.write_text(json.dumps(profile_of(up)))
    write(up, "delays", 1)
    publish(up, "ops_share")
    table = await open_table(None, "ops_share.silver.delays", via="sharing", profile=str(file))
    looked = await table.latest()
    assert looked is not None
    assert looked.version == 0
    write(up, "delays", 2)
    held = await table.latest(0)
    assert held is not None
    assert (held.version, held.data_version) == (0, None)
    publish(up, "ops_share")
    ahead = await table.latest(0)
    assert ahead is not None
    assert (ahead.version, ahead.data_version) == (1, 1)

    share(up, "ops_ending")
    ending = await open_table(None, "ops_ending.silver.delays", via="sharing", profile=str(file))
    assert await ending.latest() is not None
    client(up, "analytics").api_client.do("DELETE", "/local/shares/ops_ending")
    with pytest.raises(NotFound, match="Share 'ops_ending' does not exist, or is not given to this recipient"):
        await ending.latest()
    assert "ops_ending" not in [one.name for one in client(up, "analytics").catalogs.list()]
    with recipient(up) as still:
        assert [item["name"] for item in still.get("/shares").json()["items"]] == ["ops_share"]

    client(up, "ops").recipients.rotate_token("analytics", 0)
    with pytest.raises(NotAuthenticated, match=r"refuses the token of the Delta Sharing profile .*ops\.share"):
        await table.latest()
