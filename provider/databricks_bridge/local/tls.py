"""TLS of a local deployment: a certificate authority of its own, kept in the home, and a certificate for its servers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from databricks_bridge.core.errors import BridgeError

if TYPE_CHECKING:
    import trustme

ALWAYS_NAMED = ("127.0.0.1", "localhost")
SERVER_DAYS = 365
"""A start makes the servers' certificate anew, so this is how long a deployment may stay up."""


class NoTls(BridgeError):
    """The deployment cannot speak TLS; the message says why and what to do."""


@dataclass(frozen=True)
class Certificates:
    """`ca_file` is what clients trust; `server_file` holds the servers' key and certificate, readable by its owner alone."""

    ca_file: Path
    server_file: Path


def certificates(folder: Path, addresses: Iterable[str], now: float) -> Certificates:
    """The certificates of a deployment, in `folder`; `now` is in seconds since the epoch.

    The authority is made once, so that who trusts it still does after a restart, and again when it has expired.
    Raises NoTls when trustme is not installed, or what is kept cannot be read.
    """
    try:
        import trustme
    except ModuleNotFoundError as error:
        raise NoTls(
            f"TLS takes {error.name}, which is not installed: pip install 'airflow-provider-databricks-bridge[local]', "
            "or leave tls out"
        ) from None
    folder.mkdir(parents=True, exist_ok=True)
    time = datetime.fromtimestamp(now, UTC)
    kept = folder / "ca-key.pem"
    authority = _kept(kept, time)
    if authority is None:
        authority = trustme.CA(organization_name="databricks-bridge, local workspaces, not Databricks")
        # One file for both, so that a crash cannot part them.
        _write(kept, authority.private_key_pem.bytes() + authority.cert_pem.bytes(), 0o600)
    found = Certificates(folder / "ca.pem", folder / "server.pem")
    _write(found.ca_file, authority.cert_pem.bytes(), 0o644)
    names = dict.fromkeys((*ALWAYS_NAMED, *addresses))
    server = authority.issue_cert(*names, not_after=(time + timedelta(days=SERVER_DAYS)).replace(tzinfo=None))
    _write(found.server_file, server.private_key_and_cert_chain_pem.bytes(), 0o600)
    return found


def _kept(file: Path, now: datetime) -> trustme.CA | None:
    import trustme
    from cryptography import x509

    try:
        pem = file.read_bytes()
        if x509.load_pem_x509_certificate(pem).not_valid_after_utc <= now:
            return None
        return trustme.CA.from_pem(pem, pem)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise NoTls(
            f"{file} cannot be read ({error}); delete it, and the next start makes another authority, which clients "
            "have to trust anew"
        ) from None


def _write(file: Path, content: bytes, mode: int) -> None:
    """Whole or not at all, and never readable by others for a moment."""
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as output:
        output.write(content)
    draft.replace(file)
