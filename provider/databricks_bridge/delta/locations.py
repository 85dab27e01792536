"""Where a table's files are, from the URL that Unity Catalog gives, or from a path.

The URLs are taken apart by hand: table paths hold spaces, `#`, `?` and `%` as they are, which a URL parser would
cut or decode.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from databricks_bridge.core.errors import InvalidArgument, NotFound, NotPermitted
from databricks_bridge.core.storage_urls import azure_blob_endpoint, unaddressable
from databricks_bridge.core.urls import redacted
from databricks_bridge.delta.names import LOG

if TYPE_CHECKING:
    from obstore.store import LocalStore


class Kind(StrEnum):
    """The stores that we read."""

    FILE = "file"
    S3 = "s3"
    AZURE = "azure"
    GCS = "gcs"


_SCHEMES = {
    "file": Kind.FILE,
    "s3": Kind.S3,
    "s3a": Kind.S3,
    "abfss": Kind.AZURE,
    "abfs": Kind.AZURE,
    "gs": Kind.GCS,
}


@dataclass(frozen=True)
class Location:
    """A table's folder. `bucket` is the bucket or container, "" for files.

    `account` and `endpoint` are Azure's storage account and its Blob endpoint in the cloud that the location names.
    """

    kind: Kind
    bucket: str
    account: str
    path: str
    endpoint: str = ""

    @property
    def store(self) -> str:
        """What answers, or hangs, for all folders in it."""
        return f"{self.kind}://{self.account}/{self.bucket}"


def is_location(text: str) -> bool:
    """Whether this is a storage location, and not a table's name in the catalog."""
    return text.startswith(("/", "file:")) or "://" in text


def parse_location(text: str) -> Location:
    """The folder that a storage URL or an absolute path names.

    Raises InvalidArgument for a scheme that cannot be read, and for a path that no object store client can address.
    """
    if text.startswith("/"):
        return Location(Kind.FILE, "", "", text)
    shown, (scheme, _, rest) = redacted(text), text.partition(":")
    kind = _SCHEMES.get(scheme.lower())
    if kind is None:
        known = ", ".join(f"{name}:" for name in _SCHEMES)
        raise InvalidArgument(f"the storage location {shown!r} has a scheme that cannot be read here; known: {known}")
    authority, slash, path = rest.removeprefix("//").partition("/")
    if kind is Kind.FILE:
        return Location(kind, "", "", _existing(f"{slash}{path}"))
    bucket, at, host = authority.partition("@") if kind is Kind.AZURE else (authority, "@", "")
    if not bucket or not at:
        raise InvalidArgument(f"the storage location {shown!r} names no bucket or container")
    if "@" in authority and (kind is not Kind.AZURE or ":" in bucket or "@" in host):
        raise InvalidArgument(
            f"the storage location {shown!r} has a user or password in it; credentials are vended, or come from the environment"
        )
    folder = _addressable(shown, path)
    if kind is not Kind.AZURE:
        return Location(kind, bucket, "", folder)
    azure = azure_blob_endpoint(host)
    if azure is None:
        raise InvalidArgument(
            f"the storage location {shown!r} names the host {host!r}, which is not account.dfs.SUFFIX; credentials are sent "
            "to no other host than the location's"
        )
    account, endpoint = azure
    return Location(kind, bucket, account, folder, endpoint)


def _addressable(text: str, path: str) -> str:
    if odd := unaddressable(path):
        raise InvalidArgument(
            f"the storage location {text!r} has {odd} in its path, which the object store client cannot address; move the "
            "table to a plain path, or read its version by SQL (via='sql')"
        )
    return path.removesuffix("/")


def _existing(path: str) -> str:
    """A file URL may be percent-encoded or not; the reading that exists, else the one as written."""
    decoded = unquote(path)
    return decoded if not Path(path).exists() and Path(decoded).exists() else path


def open_folder(path: str, given_by: str = "") -> LocalStore:
    """The store of a folder on this machine, which the workspace `given_by` says is a table's.

    Raises NotFound when it is not there, NotPermitted when it is closed.
    """
    from obstore.store import LocalStore

    if not os.path.isdir(path):
        raise NotFound(
            f"the folder {path} does not exist; is the table's location{given_by and f', as {given_by} says it,'} right, "
            "and is the disk mounted here?"
        )
    log = os.path.join(path, LOG)
    if not os.access(log if os.path.isdir(log) else path, os.R_OK | os.X_OK):
        raise NotPermitted(f"this process may not list {log}; give its user read and execute on the folder")
    return LocalStore(path)
