"""What a sharing server says of a table, line by line: in the format parquet for plain tables, or the format delta.

Source: PROTOCOL.md of delta-io/delta-sharing, "API Response Actions in Parquet Format" and "in Delta Format".
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from databricks_bridge.local.server.delta_sharing_log import Action, Snapshot
from databricks_bridge.local.server.errors import ApiError

Link = Callable[[str], str]
"""From the path of a file in the table's folder to a link that opens it."""
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_BASE85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_FROM_Z85 = str.maketrans(_Z85, _BASE85)


class Unsupported(ApiError):
    """400: the table, or the call, is not one that this server can serve to this client."""

    status, error_code = 400, "UNSUPPORTED_OPERATION"


@dataclass(frozen=True)
class Capabilities:
    """What a client can read, by its header `delta-sharing-capabilities`."""

    formats: frozenset[str]
    features: frozenset[str]

    @classmethod
    def of(cls, header: str) -> Capabilities:
        """Without the header, or without a format in it, a client reads Parquet files and no more."""
        pairs = [part.partition("=") for part in header.lower().split(";")]
        said = {key.strip(): frozenset(v.strip() for v in values.split(",") if v.strip()) for key, _, values in pairs}
        return cls(said.get("responseformat") or frozenset({"parquet"}), said.get("readerfeatures", frozenset()))

    def format_for(self, snapshot: Snapshot) -> str:
        """`parquet` where the table is plain and the client reads that, else `delta`. Raises Unsupported."""
        needed = snapshot.features
        if not needed and "parquet" in self.formats:
            return "parquet"
        if "delta" not in self.formats:
            raise Unsupported(
                f"The table needs the reader features {', '.join(sorted(needed)) or 'of Delta'}, which the response format "
                "parquet cannot tell; ask with the header delta-sharing-capabilities: responseformat=delta"
                if needed
                else f"No response format of {', '.join(sorted(self.formats))} is served; there are parquet and delta."
            )
        if missing := sorted(one for one in needed if one.lower() not in self.features):
            raise Unsupported(
                f"The table needs the reader features {', '.join(missing)}, which the client does not name in readerfeatures."
            )
        return "delta"


@dataclass(frozen=True)
class Moment:
    """Of a table that was asked for as of a version: the version, and its time in epoch milliseconds."""

    version: int
    timestamp: int


def head(snapshot: Snapshot, form: str, moment: Moment | None) -> list[Action]:
    """The lines protocol and metaData."""
    more: Action = {
        "size": sum(file["size"] for file in snapshot.files),
        "numFiles": len(snapshot.files),
        **({} if moment is None else {"version": moment.version}),
    }
    if form == "delta":
        protocol = {"deltaProtocol": snapshot.protocol}
        return [{"protocol": protocol}, {"metaData": {"deltaMetadata": snapshot.metadata, **more}}]
    feed = snapshot.configuration.get("delta.enableChangeDataFeed", "").lower() == "true"
    shown: Action = {
        name: snapshot.metadata[name]
        for name in ("id", "name", "description", "schemaString")
        if name in snapshot.metadata
    }
    metadata: Action = {
        **shown,
        "format": {"provider": "parquet"},
        "partitionColumns": snapshot.metadata.get("partitionColumns") or [],
        "configuration": {"enableChangeDataFeed": "true"} if feed else {},
        **more,
    }
    return [{"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}]


def files(
    snapshot: Snapshot, form: str, moment: Moment | None, limit: int | None, link: Link, expires_at: int
) -> Iterator[Action]:
    """A line for each file, until there are `limit` rows in them. `expires_at` (epoch milliseconds) is when links end."""
    for file in _enough(snapshot.files, limit):
        more: Action = {} if moment is None else {"version": moment.version, "timestamp": moment.timestamp}
        more |= {"id": _id(file["path"]), "expirationTimestamp": expires_at}
        if form == "delta":
            yield {"file": _delta_file(file, link) | more}
        else:
            plain: Action = {"url": link(_inside(file["path"])), "size": file["size"], **more}
            plain["partitionValues"] = {
                name: value or "" for name, value in (file.get("partitionValues") or {}).items()
            }
            yield {"file": plain | ({"stats": file["stats"]} if file.get("stats") else {})}


def _delta_file(file: Action, link: Link) -> Action:
    add = {**file, "path": link(_inside(file["path"]))}
    found: Action = {"size": file["size"], "deltaSingleAction": {"add": add}}
    vector = file.get("deletionVector")
    if vector and vector["storageType"] != "i":
        place = _vector_file(vector)
        add["deletionVector"] = {**vector, "storageType": "p", "pathOrInlineDv": link(place)}
        found["deletionVectorFileId"] = _id(place)
    return found


def _vector_file(vector: Action) -> str:
    """Where a deletion vector is (Delta protocol, "Deletion Vector Descriptor Schema")."""
    named = vector["pathOrInlineDv"]
    if vector["storageType"] != "u":
        return _inside(named)
    folder, encoded = named[:-20], named[-20:]
    name = uuid.UUID(bytes=base64.b85decode(encoded.translate(_FROM_Z85)))
    return "/".join(part for part in (folder, f"deletion_vector_{name}.bin") if part)


def _inside(path: str) -> str:
    """The path of a file of the table's own folder, decoded. Raises Unsupported for one that is elsewhere."""
    found = unquote(path)
    if found.startswith("/") or "://" in found or found.startswith("file:") or ".." in found.split("/"):
        raise Unsupported("The table has files outside of its own folder, as a shallow clone has; they are not shared.")
    return found


def _enough(found: Iterable[Action], limit: int | None) -> Iterator[Action]:
    rows = 0
    for file in found:
        if limit is not None and rows >= limit:
            return
        rows += _rows(file)
        yield file


def _rows(file: Action) -> int:
    """How many rows are known to be in a file; 0 where it does not say."""
    try:
        known: Any = json.loads(file.get("stats") or "{}").get("numRecords", 0)
        return max(0, int(known) - int((file.get("deletionVector") or {}).get("cardinality", 0)))
    except (ValueError, TypeError, AttributeError):
        return 0


def _id(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:32]
