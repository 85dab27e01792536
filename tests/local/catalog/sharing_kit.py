"""A deployment whose workspace ops gives a share to the metastore analytics, and plain HTTP as a recipient speaks it."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from tests.local.local_kit import Notebooks, client

Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class Recipient:
    """What analytics has been given: the profile, and an HTTP client that carries its token."""

    profile: dict[str, Any]
    http: httpx.Client

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("GET", path, **more)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self.http.request(method, self.profile["endpoint"] + path, **more)

    def query(self, table: str, capabilities: str = "", **body: Any) -> httpx.Response:
        headers = {"delta-sharing-capabilities": capabilities} if capabilities else {}
        return self.ask("POST", f"{table}/query", json=body, headers=headers)


@contextmanager
def sharing_deployment(home: Path) -> Iterator[Deployment]:
    with deployment_in_thread(home, ["ops", "analytics"], engine=InstantEngine(Notebooks().run)) as up:
        yield up


def write(up: Deployment, table: str, *values: int, workspace: str = "ops", **more: Any) -> None:
    """Append to a table of ops. The schema `main.silver` is made by it."""
    from deltalake import write_deltalake

    folder = up.layout.table_path(workspace, f"main.silver.{table}")
    folder.mkdir(parents=True, exist_ok=True)
    data = pa.table({"n": pa.array(values, pa.int64()), "kind": [f"a b/{value % 2}" for value in values]})
    write_deltalake(str(folder), data, mode="append", partition_by=["kind"], **more)


def share(up: Deployment, catalog: str, **more: Any) -> None:
    body = {"catalog": catalog, "source_metastore": "ops", "source_catalog": "main", "schemas": ["silver"], **more}
    client(up, "analytics").api_client.do("POST", "/local/shares", body=body)


def publish(up: Deployment, catalog: str, **body: Any) -> None:
    client(up, "analytics").api_client.do("POST", f"/local/shares/{catalog}/publish", body=body)


def profile_of(up: Deployment, recipient: str = "analytics") -> dict[str, Any]:
    """A new profile, as the owner of the share asks for it, and the recipient follows the link."""
    ops = client(up, "ops")
    link = ops.recipients.rotate_token(recipient, 3600).tokens[-1].activation_url
    return dict(httpx.get(link).raise_for_status().json())


@contextmanager
def recipient(up: Deployment) -> Iterator[Recipient]:
    profile = profile_of(up)
    headers = {"authorization": f"Bearer {profile['bearerToken']}"}
    with httpx.Client(headers=headers, timeout=20, trust_env=False) as http:
        yield Recipient(profile, http)


def lines_of(answer: httpx.Response) -> Lines:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    return [json.loads(line) for line in answer.text.splitlines()]


def files_of(answer: httpx.Response) -> Lines:
    return [line["file"] for line in lines_of(answer)[2:]]


def delete_by_vector(table: Path, row: int) -> bytes:
    """Commit that this row of the first file is deleted, as Spark does it; the content of the vector's file.

    Delta protocol, "Deletion Vectors" and "Deletion Vector Files".
    """
    log = table / "_delta_log"
    version = len(list(log.glob("*.json")))
    actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    container = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, row)
    bitmap = struct.pack("<IQI", 1681511377, 1, 0) + container
    content = b"\x01" + struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    # the id whose base 85 is in the protocol's own example
    (table / "ab").mkdir()
    (table / "ab" / "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin").write_bytes(content)
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": len(bitmap)}
    gone = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True, "partitionValues": add["partitionValues"]}
    features = ["deletionVectors"]
    commit: Lines = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {"remove": {**gone, "size": add["size"]}},
        {"add": {**add, "deletionVector": {**vector, "cardinality": 1}}},
    ]
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in commit))
    return content
