"""Where a table's files are, by what Unity Catalog writes: which hosts and paths are taken, and which are refused in a sentence."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.delta.credentials import open_store
from databricks_bridge.delta.locations import Kind, Location, parse_location

LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("s3://lake/a b/t#1", Location(Kind.S3, "lake", "", "a b/t#1")),
        ("s3a://lake/t/", Location(Kind.S3, "lake", "", "t")),
        ("gs://lake/T?x", Location(Kind.GCS, "lake", "", "T?x")),
        (
            "abfss://raw@acct.dfs.core.windows.net/a b/é%20",
            Location(Kind.AZURE, "raw", "acct", "a b/é%20", "https://acct.blob.core.windows.net"),
        ),
        (
            "abfss://raw@acct.dfs.core.usgovcloudapi.net/t",
            Location(Kind.AZURE, "raw", "acct", "t", "https://acct.blob.core.usgovcloudapi.net"),
        ),
        (
            "abfss://raw@acct.z12.dfs.storage.azure.net/t",
            Location(Kind.AZURE, "raw", "acct", "t", "https://acct.z12.blob.storage.azure.net"),
        ),
        (
            "abfs://raw@ACCT.blob.core.chinacloudapi.cn/t",
            Location(Kind.AZURE, "raw", "acct", "t", "https://acct.blob.core.chinacloudapi.cn"),
        ),
    ],
)
def test_B18_a_location_is_taken_as_it_is_written(text: str, location: Location) -> None:
    assert parse_location(text) == location


@pytest.mark.parametrize("text", ["wasbs://a@b/c", "s3:///t", "abfss://acct.dfs.core.windows.net/t", "main.s.t"])
def test_a_location_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_location(text)


@pytest.mark.parametrize(
    "host", ["acct", "acct.example.com", "acct.dfs.evil", "acct.dfs.core.windows.net:8443", "u:p@a.dfs.x.y", "dfs.x.y"]
)
def test_a_host_that_is_not_azure_storage_gets_no_credentials(host: str) -> None:
    with pytest.raises(InvalidArgument, match=r"no other host|names no bucket|has a user or password"):
        parse_location(f"abfss://raw@{host}/t")


@pytest.mark.parametrize("path", ["a//b", "/a", "a//", "a/./b", "../a", "a/..", "a\nb"])
@pytest.mark.parametrize("bucket", ["s3://b", "gs://b", "abfss://c@acct.dfs.core.windows.net"])
def test_a_path_that_no_client_can_address_is_refused_in_a_sentence(bucket: str, path: str) -> None:
    with pytest.raises(InvalidArgument, match=r"cannot address; move the table .*via='sql'"):
        parse_location(f"{bucket}/{path}")


@pytest.mark.parametrize(
    ("text", "region", "endpoint"),
    [
        ("abfss://c@acct.dfs.core.usgovcloudapi.net/t", None, "https://acct.blob.core.usgovcloudapi.net"),
        ("abfss://c@acct.z1.dfs.storage.azure.net/t", None, "https://acct.z1.blob.storage.azure.net"),
        ("s3://b/t", "eu-west-3", "https://s3.eu-west-3.amazonaws.com"),
        ("s3://b/t", "cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_credentials_go_to_the_cloud_that_the_location_names(text: str, region: str | None, endpoint: str) -> None:
    keys = {"access_key_id": "K", "secret_access_key": "secret", "session_token": "t"}
    answer = {"aws_temp_credentials": keys, "azure_user_delegation_sas": {"sas_token": "sig=x"}}
    opened = open_store(parse_location(text), answer, until=LATER, region=region)
    assert opened.config["endpoint"] == endpoint
