"""databricks-sql-connector, unmodified: without Thrift it works, with Thrift it is told so at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.server.warehouses import warehouse_id
from databricks_bridge.local.sql.model import SqlRequest
from tests.local.clients.fake_sql import FakeSql
from tests.local.local_kit import Notebooks

sql = pytest.importorskip("databricks.sql")


def connect(deployment: Deployment, **more: Any) -> Any:
    address = urlsplit(deployment.host("ops"))
    known = warehouse_id(deployment.workspaces["ops"])
    return sql.connect(
        server_hostname=f"http://{address.hostname}",
        _port=address.port,
        http_path=f"/sql/1.0/warehouses/{known}",
        access_token=deployment.token("ops"),
        enable_telemetry=False,
        **more,
    )


@pytest.mark.parametrize("cloud_fetch", [False, True])
def test_it_works_over_the_statement_api(deployment: Deployment, cloud_fetch: bool) -> None:
    with connect(deployment, use_sea=True, use_cloud_fetch=cloud_fetch) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS n")
        assert [column[0] for column in cursor.description] == ["n"]
        assert [int(row[0]) for row in cursor.fetchall()] == [1]
    assert deployment.workspaces["ops"].sql.sessions == {}


def test_a_session_has_a_catalog_and_a_schema(deployment: Deployment, fake_sql: FakeSql) -> None:
    with (
        connect(deployment, use_sea=True, catalog="main", schema="silver") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT 1 AS n")
    asked: SqlRequest = fake_sql.seen[-1]
    assert (asked.catalog, asked.schema) == ("main", "silver")


def test_thrift_is_refused_at_once_in_words(tmp_path: Path, notebooks: Notebooks) -> None:
    """The connector speaks Thrift over TLS alone."""
    engine = InstantEngine(notebooks.run)
    with deployment_in_thread(tmp_path / "home", ["ops"], engine=engine, sql=FakeSql(), tls=True) as up:
        address = urlsplit(up.host("ops"))
        with pytest.raises(Exception, match="does not serve Thrift; databricks-sql-connector reaches it with use_sea"):
            sql.connect(
                server_hostname=address.hostname,
                _port=address.port,
                http_path=f"/sql/1.0/warehouses/{warehouse_id(up.workspaces['ops'])}",
                access_token=up.token("ops"),
                enable_telemetry=False,
                _tls_trusted_ca_file=str(up.workspaces["ops"].ca_file),
                _retry_stop_after_attempts_duration=20,
            )


def test_sessions_that_are_not_there(deployment: Deployment, ops: Any) -> None:
    from databricks.sdk.errors import NotFound

    known = warehouse_id(deployment.workspaces["ops"])
    body = {"warehouse_id": known, "statement": "SELECT 1 AS n", "session_id": "none"}
    with pytest.raises(NotFound, match="The session none was not found"):
        ops.api_client.do("POST", "/api/2.0/sql/statements", body=body)
    with pytest.raises(NotFound, match="The session none was not found"):
        ops.api_client.do("DELETE", "/api/2.0/sql/sessions/none")
