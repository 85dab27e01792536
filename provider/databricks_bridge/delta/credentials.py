"""From Unity Catalog's temporary credentials to an object store.

Shape of the answer: `POST /api/2.0/unity-catalog/temporary-table-credentials` (GenerateTemporaryTableCredentialResponse).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from databricks_bridge.core.errors import BadAnswer
from databricks_bridge.core.storage_urls import s3_endpoint
from databricks_bridge.delta.locations import Kind, Location

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_S3 = "https://s3.amazonaws.com"
_REGION_SECONDS = 10.0
_NO_EXPIRY = timedelta(minutes=15)
_CLIENT: ClientConfig = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(seconds=30)}
_RETRY: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}


def expires(answer: dict[str, Any], now: datetime) -> datetime:
    """When the credentials end; an answer without a time is taken to last fifteen minutes."""
    milliseconds = answer.get("expiration_time")
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC) if milliseconds else now + _NO_EXPIRY


def open_store(location: Location, answer: dict[str, Any], *, until: datetime, region: str | None) -> ObjectStore:
    """The store that these credentials open, rooted at the table's folder.

    They are given as a provider, because keys in the environment would win over plain arguments. The environment's
    AWS_ENDPOINT_URL (a VPC endpoint, say) and AWS_ALLOW_HTTP count, as they do for the AWS tools.
    """
    from obstore.store import AzureStore, GCSStore, S3Store

    prefix = location.path or None
    if location.kind is Kind.S3:
        keys = _part(answer, location, "aws_temp_credentials")
        return S3Store(
            location.bucket,
            prefix=prefix,
            region=region,
            endpoint=os.environ.get("AWS_ENDPOINT_URL") or (s3_endpoint(region) if region else None),
            client_options={**_CLIENT, "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"},
            retry_config=_RETRY,
            credential_provider=_fixed(
                {
                    "access_key_id": keys["access_key_id"],
                    "secret_access_key": keys["secret_access_key"],
                    "token": keys.get("session_token"),
                    "expires_at": until,
                }
            ),
        )
    if location.kind is Kind.AZURE:
        if answer.get("azure_user_delegation_sas"):
            secret = {"sas_token": answer["azure_user_delegation_sas"]["sas_token"]}
        else:
            secret = {"token": _part(answer, location, "azure_aad")["aad_token"]}
        return AzureStore(
            location.bucket,
            prefix=prefix,
            account_name=location.account,
            endpoint=location.endpoint,
            client_options=_CLIENT,
            retry_config=_RETRY,
            credential_provider=_fixed({**secret, "expires_at": until}),
        )
    token = _part(answer, location, "gcp_oauth_token")["oauth_token"]
    return GCSStore(
        location.bucket,
        prefix=prefix,
        client_options=_CLIENT,
        retry_config=_RETRY,
        credential_provider=_fixed({"token": token, "expires_at": until}),
    )


async def bucket_region(bucket: str, *, endpoint: str = _S3) -> str | None:
    """The AWS region of a bucket: S3 names it in `x-amz-bucket-region` whoever asks. None when it did not."""
    import aiohttp

    from databricks_bridge.workspace.names import HostResolver

    timeout = aiohttp.ClientTimeout(total=_REGION_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(resolver=HostResolver())) as session,
            session.head(f"{endpoint}/{bucket}", allow_redirects=False) as response,
        ):
            return response.headers.get("x-amz-bucket-region")
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None


def _fixed(credential: dict[str, Any]) -> Callable[[], Any]:
    return lambda: credential


def _part(answer: dict[str, Any], location: Location, name: str) -> dict[str, Any]:
    part = answer.get(name)
    if not isinstance(part, dict):
        given = ", ".join(sorted(key for key, value in answer.items() if isinstance(value, dict))) or "none"
        raise BadAnswer(
            f"the temporary credentials for {location.kind.value} storage {location.bucket} lack {name} (given: {given})"
        )
    return part
