"""URLs of cloud storage: which hosts they lead to, so that credentials go to no other cloud, and which paths no client can address.

Sources: "Azure Data Lake Storage URI" (`abfss://container@account.dfs.SUFFIX/path`; a national cloud has a suffix of its own,
an account with a DNS zone has `account.zNN.dfs.storage.azure.net`), and AWS's "Amazon S3 endpoints" (the partition `aws-cn`
lies below `amazonaws.com.cn`).
"""

from __future__ import annotations

import re

_AZURE = re.compile(
    r"(?P<account>[a-z0-9][a-z0-9-]*)(?P<zone>(\.[a-z0-9-]+)*)\.(dfs|blob)(?P<suffix>(\.[a-z0-9-]+){2,})"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def azure_blob_endpoint(host: str) -> tuple[str, str] | None:
    """The account and the Blob endpoint of an Azure storage host, in that host's own cloud and zone.

    :param host: the part of an `abfss:` location after the `@`, such as `lake.dfs.core.usgovcloudapi.net`
    :return: account name and endpoint URL; None when `host` is not an Azure storage host
    """
    found = _AZURE.fullmatch(host.lower())
    if found is None:
        return None
    return found["account"], f"https://{found['account']}{found['zone']}.blob{found['suffix']}"


def s3_endpoint(region: str) -> str:
    """The S3 endpoint of an AWS region, in the region's own partition.

    :param region: such as `eu-west-3` or `cn-north-1`
    """
    return f"https://s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def unaddressable(path: str) -> str | None:
    """What in an object store's path its clients normalize or refuse, so that they would miss the object.

    :param path: the path after bucket or container, without its first slash; one slash at its end does no harm
    :return: such as "an empty segment ('//')"; None when the path can be addressed
    """
    folder = path.removesuffix("/")
    for segment in folder.split("/") if folder else ():
        if segment == "":
            return "an empty segment ('//')"
        if segment in (".", ".."):
            return f"a segment {segment!r}"
        if _CONTROL.search(segment):
            return "a control character"
    return None
