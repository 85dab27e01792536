"""No password of a URL is shown anywhere: T44."""

from __future__ import annotations

import pytest

from databricks_bridge.core.urls import redacted, without_login

SECRET = "pa55-w0rd"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"http://user:{SECRET}@host:8080/x", "http://***@host:8080/x"),
        (f"https://{SECRET}@host", "https://***@host"),
        (f"https://user:{SECRET}@with@at@host/x@y", "https://***@host/x@y"),
        (f"s3://KEY:{SECRET}@bucket/p", "s3://***@bucket/p"),
        (f"fatal: could not read '//user:{SECRET}@host/r.git'", "fatal: could not read '//***@host/r.git'"),
        (f"socks5://u:{SECRET}@[::1]:1080 then http://u:{SECRET}@h", "socks5://***@[::1]:1080 then http://***@h"),
        (f"https://h/p?sig={SECRET}&x=1", "https://h/p?sig=***&x=1"),
        (f"https://h/p?a=1&access_token={SECRET}", "https://h/p?a=1&access_token=***"),
        (f"https://h/p?X-Amz-Signature={SECRET}#f", "https://h/p?X-Amz-Signature=***#f"),
        (f"abfss://c:{SECRET}@account.dfs.core.windows.net/t", "abfss://***@account.dfs.core.windows.net/t"),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
        ("https://host/Users/me@example.com", "https://host/Users/me@example.com"),
        ("https://h/p?design=1", "https://h/p?design=1"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
    ],
)
def test_a_url_is_shown_without_what_opens_something(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_a_login_is_taken_out_of_a_url() -> None:
    assert without_login("http://me:p%40ss@host:8080/airflow/") == ("http://host:8080/airflow/", "me", "p@ss")
    assert without_login("http://host") == ("http://host", "", "")


@pytest.mark.parametrize("url", [f"http://u:{SECRET}@host:port", f"http://u:{SECRET}@[host"])
def test_what_is_no_url_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="not a URL") as refused:
        without_login(url)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
