"""The link from a task to the page of its run in Databricks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class DatabricksRunLink(BaseOperatorLink):
    """Opens `run_page_url`, which the task pushes as soon as its run is known; empty before."""

    name = "See Databricks run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        from airflow.sdk.execution_time.xcom import XCom

        return str(XCom.get_value(key="run_page_url", ti_key=ti_key) or "")
