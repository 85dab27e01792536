"""URLs that may carry a user and a password: shown without them, and taken apart before a client gets them."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit, urlunsplit

# As far as the last @ before the path: a password may hold one itself. abfss://container@account has no user there.
_USERINFO = re.compile(r"//[^/?#\s'\"<>]*@")
_CONTAINER = re.compile(r"abfss?://[^/:@\s]+@", re.IGNORECASE)
_SECRET_IN_QUERY = re.compile(
    r"([?&;](?:[\w.-]*(?:password|secret|token|signature|credential|accesskey|access_key)[\w.-]*|sig)=)[^&#\s'\"<>]*",
    re.IGNORECASE,
)


def redacted(text: object) -> str:
    """`text` without the user and password of any URL in it, and without the values of its secret query fields.

    :param text: a URL, or words that may quote one.
    """
    words = str(text)
    kept = {found.end() for found in _CONTAINER.finditer(words)}
    shown = _USERINFO.sub(lambda found: found[0] if found.end() in kept else "//***@", words)
    return _SECRET_IN_QUERY.sub(r"\1***", shown)


def without_login(url: str) -> tuple[str, str, str]:
    """The URL without its userinfo; its user and its password, both decoded, each empty where there is none.

    :param url: an http or https URL.
    :raises ValueError: for what is no URL; the message does not hold it.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("it is not a URL with a host and a number as its port") from None
    _, _, host = parts.netloc.rpartition("@")
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return bare, unquote(parts.username or ""), unquote(parts.password or "")
