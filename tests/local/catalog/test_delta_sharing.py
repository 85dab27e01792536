"""The open Delta Sharing server over real HTTP, as its protocol is written: lists, versions, metadata, files and their links."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from databricks_bridge.local.deployment import Deployment
from databricks_bridge.local.triggers.commits import commit_time
from tests.local.catalog.sharing_kit import (
    Recipient,
    delete_by_vector,
    files_of,
    lines_of,
    publish,
    recipient,
    share,
    sharing_deployment,
    write,
)
from tests.local.local_kit import client

SILVER = "/shares/ops_share/schemas/silver/tables"
FLIGHTS = f"{SILVER}/flights"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with sharing_deployment(tmp_path_factory.mktemp("sharing") / "home") as deployment:
        write(deployment, "flights", 1, 2, configuration={"delta.enableChangeDataFeed": "true"})
        write(deployment, "flights", 3)
        write(deployment, "weather", 1)
        share(deployment, "ops_share")
        share(deployment, "ops_plain", history=False)
        share(deployment, "ops_held", lag="held")
        publish(deployment, "ops_held")
        yield deployment


@pytest.fixture(scope="module")
def analytics(up: Deployment) -> Iterator[Recipient]:
    with recipient(up) as made:
        yield made


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["name"] for item in answer.json()["items"]]


def refusal(answer: httpx.Response) -> tuple[int, str]:
    assert answer.json().keys() == {"errorCode", "message"}
    return answer.status_code, answer.json()["errorCode"]


def rows_by_links(answer: httpx.Response) -> list[tuple[int, str]]:
    """What the links of a query lead to, read by who has nothing but them."""
    found = []
    for file in files_of(answer):
        content = httpx.get(file["url"]).raise_for_status().content
        assert len(content) == file["size"]
        values = pq.read_table(io.BytesIO(content)).column("n").to_pylist()
        found += [(value, file["partitionValues"]["kind"]) for value in values]
    return sorted(found)


def flights_of(up: Deployment, version: int) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(up.layout.table_path("ops", "main.silver.flights")), version=version)


def rows_of(up: Deployment, version: int) -> list[tuple[int, str]]:
    table = flights_of(up, version)
    return sorted((row["n"], row["kind"]) for row in table.to_pyarrow_table().to_pylist())


def test_shares_schemas_and_tables_are_listed(analytics: Recipient) -> None:
    assert names(analytics.get("/shares")) == ["ops_held", "ops_plain", "ops_share"]
    one = analytics.get("/shares/OPS_share").json()["share"]
    assert one["name"] == "ops_share"
    assert analytics.get("/shares/ops_share/schemas").json() == {"items": [{"name": "silver", "share": "ops_share"}]}
    tables = analytics.get("/shares/ops_share/schemas/Silver/tables").json()["items"]
    assert [(table["name"], table["schema"], table["share"]) for table in tables] == [
        ("flights", "silver", "ops_share"),
        ("weather", "silver", "ops_share"),
    ]
    assert {table["shareId"] for table in tables} == {one["id"]}
    assert len({table["id"] for table in tables}) == 2
    assert analytics.get("/shares/ops_share/all-tables").json()["items"] == tables


def test_lists_come_in_pages(analytics: Recipient) -> None:
    """With maxResults=0 there is nothing but the token for what follows."""
    nothing = analytics.get("/shares", params={"maxResults": 0}).json()
    assert nothing["items"] == []
    found, token = [], nothing["nextPageToken"]
    while token:
        page = analytics.get("/shares", params={"maxResults": 2, "pageToken": token}).json()
        found.append([item["name"] for item in page["items"]])
        token = page.get("nextPageToken")
    assert found == [["ops_held", "ops_plain"], ["ops_share"]]
    for wrong in ({"maxResults": -1}, {"maxResults": "many"}, {"pageToken": "of another server"}):
        assert refusal(analytics.get("/shares", params=wrong)) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize(
    "path",
    [
        "/shares/none",
        "/shares/none/all-tables",
        "/shares/ops_share/schemas/none/tables",
        f"{SILVER}/none/version",
        f"{SILVER}/none/metadata",
        f"{SILVER}/none/changes",
        "/shares/ops_share/schemas/none/tables/flights/version",
    ],
)
def test_what_is_not_there_is_404(analytics: Recipient, path: str) -> None:
    assert refusal(analytics.get(path)) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_the_version_is_in_a_header_now_and_since_a_time(up: Deployment, analytics: Recipient) -> None:
    assert analytics.get(f"{FLIGHTS}/version").headers["delta-table-version"] == "1"
    head = analytics.ask("HEAD", FLIGHTS)
    assert (head.status_code, head.headers["delta-table-version"], head.content) == (200, "1", b"")
    assert analytics.ask("HEAD", f"{SILVER}/none").status_code == 404
    first, second = (commit_time(up.layout.table_path("ops", "main.silver.flights"), version) for version in (0, 1))

    def since(at: datetime | str) -> httpx.Response:
        text = at if isinstance(at, str) else at.isoformat().replace("+00:00", "Z")
        return analytics.get(f"{FLIGHTS}/version", params={"startingTimestamp": text})

    assert since("2020-01-01T00:00:00Z").headers["delta-table-version"] == "0"
    assert since(first + timedelta(milliseconds=1)).headers["delta-table-version"] == "1"
    for wrong in (second + timedelta(seconds=1), "2020-01-01T00:00:00", "yesterday"):
        assert refusal(since(wrong)) == (400, "INVALID_PARAMETER_VALUE")


def test_metadata_is_two_lines(up: Deployment, analytics: Recipient) -> None:
    answer = analytics.get(f"{FLIGHTS}/metadata")
    protocol, metadata = lines_of(answer)
    assert answer.headers["delta-table-version"] == "1"
    assert answer.headers["delta-sharing-capabilities"] == "responseformat=parquet"
    assert protocol == {"protocol": {"minReaderVersion": 1}}
    table = flights_of(up, 1)
    said = metadata["metaData"]
    assert said["id"] == str(table.metadata().id)
    assert (said["partitionColumns"], said["format"]) == (["kind"], {"provider": "parquet"})
    assert (said["configuration"], said["numFiles"]) == ({"enableChangeDataFeed": "true"}, 3)
    assert said["schemaString"].startswith('{"type":"struct","fields":[{"name":"n","type":"long"')


def test_the_files_behind_the_links_hold_the_rows_of_the_table(up: Deployment, analytics: Recipient) -> None:
    newest = analytics.query(FLIGHTS)
    assert newest.headers["delta-table-version"] == "1"
    assert rows_by_links(newest) == rows_of(up, 1) == [(1, "a b/1"), (2, "a b/0"), (3, "a b/1")]
    again = {file["id"]: file["url"] for file in files_of(analytics.query(FLIGHTS))}
    assert again.keys() == {file["id"] for file in files_of(newest)}
    first = analytics.query(FLIGHTS, version=0)
    assert first.headers["delta-table-version"] == "0"
    assert rows_by_links(first) == rows_of(up, 0)
    assert {file["version"] for file in files_of(first)} == {0}
    at = commit_time(up.layout.table_path("ops", "main.silver.flights"), 0)
    text = (at + timedelta(milliseconds=1)).isoformat()
    assert lines_of(analytics.query(FLIGHTS, timestamp=text))[1]["metaData"]["version"] == 0
    assert len(files_of(analytics.query(FLIGHTS, limitHint=1))) == 1
    assert '"numRecords":1' in files_of(newest)[0]["stats"].replace(" ", "")


def test_a_table_is_read_from_checkpoints_too(up: Deployment, analytics: Recipient) -> None:
    """A share without history has a checkpoint and one commit; its past cannot be asked for."""
    plain = "/shares/ops_plain/schemas/silver/tables/flights"
    assert rows_by_links(analytics.query(plain)) == rows_of(up, 1)
    for body in ({"version": 0}, {"timestamp": "2030-01-01T00:00:00Z"}):
        assert refusal(analytics.query(plain, **body)) == (400, "INVALID_PARAMETER_VALUE")


def test_what_a_query_cannot_mean_is_refused(analytics: Recipient) -> None:
    for body in (
        {"version": 7},
        {"version": -1},
        {"version": "first"},
        {"version": 0, "timestamp": "2026-01-01T00:00:00Z"},
        {"timestamp": "2020-01-01T00:00:00Z"},
        {"timestamp": "2199-01-01T00:00:00Z"},
    ):
        assert refusal(analytics.query(FLIGHTS, **body)) == (400, "INVALID_PARAMETER_VALUE"), body
    assert refusal(analytics.ask("POST", f"{FLIGHTS}/query", content=b"{")) == (400, "MALFORMED_REQUEST")
    assert refusal(analytics.query(FLIGHTS, startingVersion=0)) == (400, "UNSUPPORTED_OPERATION")
    assert refusal(analytics.get(f"{FLIGHTS}/changes?startingVersion=0")) == (400, "UNSUPPORTED_OPERATION")
    for header, status in (("Delta", 200), ("sha1", 400)):
        assert analytics.ask("POST", f"{FLIGHTS}/query", json={}, headers={"fileidhash": header}).status_code == status


def test_links_carry_their_own_credential_and_expire(up: Deployment, analytics: Recipient) -> None:
    file = files_of(analytics.query(FLIGHTS))[0]
    url = file["url"]
    part = httpx.get(url, headers={"range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"PAR1")
    assert httpx.head(url).headers["content-length"] == str(file["size"])
    assert httpx.get(url, headers={"authorization": "Bearer x"}).status_code == 400
    assert httpx.get(url[:-1] + ("0" if url[-1] != "0" else "1")).status_code == 403
    assert httpx.get(url.replace("/flights/", "/weather/")).status_code == 403
    assert httpx.get(url.partition("?")[0]).status_code == 400
    seconds = file["expirationTimestamp"] / 1000 - datetime.now(UTC).timestamp()
    assert 0 < seconds <= 900
    faults = client(up, "ops").api_client
    fault = faults.do("POST", "/local/faults", body={"kind": "clock", "seconds": 901})
    try:
        assert "has expired" in httpx.get(url).json()["message"]
    finally:
        faults.do("DELETE", f"/local/faults/{fault['fault_id']}")
    assert httpx.get(url).status_code == 200


def test_a_recipient_sees_the_version_that_was_published_to_it(up: Deployment, analytics: Recipient) -> None:
    held = "/shares/ops_held/schemas/silver/tables/late"
    write(up, "late", 1)
    assert refusal(analytics.get(f"{held}/version")) == (404, "RESOURCE_DOES_NOT_EXIST")
    publish(up, "ops_held")
    write(up, "late", 2)
    assert analytics.get(f"{held}/version").headers["delta-table-version"] == "0"
    assert [row[0] for row in rows_by_links(analytics.query(held))] == [1]
    assert refusal(analytics.query(held, version=1)) == (400, "INVALID_PARAMETER_VALUE")
    publish(up, "ops_held")
    assert analytics.get(f"{held}/version").headers["delta-table-version"] == "1"
    assert [row[0] for row in rows_by_links(analytics.query(held))] == [1, 2]


def test_a_table_with_deletion_vectors_is_for_clients_that_understand_them(
    up: Deployment, analytics: Recipient
) -> None:
    write(up, "trimmed", 1, 3, 5)
    content = delete_by_vector(up.layout.table_path("ops", "main.silver.trimmed"), 1)
    publish(up, "ops_share")
    table = f"{SILVER}/trimmed"
    for capabilities in ("", "responseformat=parquet", "responseformat=delta", "responseformat=x"):
        answer = analytics.query(table, capabilities)
        assert refusal(answer) == (400, "UNSUPPORTED_OPERATION")
    answer = analytics.query(table, "responseFormat=delta,parquet;readerFeatures=deletionVectors,columnMapping")
    assert answer.headers["delta-sharing-capabilities"] == "responseformat=delta"
    protocol, metadata, file = lines_of(answer)
    assert protocol["protocol"]["deltaProtocol"]["readerFeatures"] == ["deletionVectors"]
    assert metadata["metaData"]["deltaMetadata"]["partitionColumns"] == ["kind"]
    add: dict[str, Any] = file["file"]["deltaSingleAction"]["add"]
    assert len(httpx.get(add["path"]).raise_for_status().content) == file["file"]["size"]
    vector = add["deletionVector"]
    assert (vector["storageType"], vector["offset"], vector["cardinality"]) == ("p", 1, 1)
    assert httpx.get(vector["pathOrInlineDv"]).raise_for_status().content == content
    assert lines_of(analytics.get(f"{table}/metadata?version=0"))[1]["metaData"]["version"] == 0


def test_a_plain_table_comes_in_the_format_that_is_asked_for(analytics: Recipient) -> None:
    both = analytics.query(FLIGHTS, "responseformat=delta,parquet")
    assert both.headers["delta-sharing-capabilities"] == "responseformat=parquet"
    delta = analytics.query(FLIGHTS, "responseformat=delta")
    assert delta.headers["delta-sharing-capabilities"] == "responseformat=delta"
    assert [set(file["deltaSingleAction"]) for file in files_of(delta)] == [{"add"}] * 3


def test_a_file_that_the_provider_has_cleaned_is_gone(up: Deployment, analytics: Recipient, tmp_path: Path) -> None:
    write(up, "cleaned", 1)
    publish(up, "ops_share")
    url = files_of(analytics.query(f"{SILVER}/cleaned"))[0]["url"]
    assert httpx.get(url).status_code == 200
    folder = up.layout.table_path("analytics", "ops_share.silver.cleaned")
    for file in folder.rglob("*.parquet"):
        file.rename(tmp_path / file.name)
    assert httpx.get(url).status_code == 404
