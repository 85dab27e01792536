"""What the demo asks Airflow's public REST API."""

from __future__ import annotations

from typing import Any

import httpx

from demo.places import DemoFailed

Json = dict[str, Any]
COMPONENTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


class AirflowApi:
    """A client that logs in when first needed."""

    def __init__(self, base_url: str, user: str, password: str) -> None:
        self.base_url = base_url
        self._login = {"username": user, "password": password}
        self._http = httpx.Client(base_url=base_url, timeout=30)

    def unhealthy(self) -> list[str]:
        """The components that are not up yet."""
        try:
            answer = self._http.get("/api/v2/monitor/health")
        except httpx.TransportError:
            return ["api-server"]
        if answer.status_code != 200:
            return ["api-server"]
        health = answer.json()
        return [name for name in COMPONENTS if (health.get(name) or {}).get("status") != "healthy"]

    def import_errors(self) -> list[str]:
        """One line for each DAG file that Airflow could not import."""
        errors = self._get("/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in errors]

    def dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self._get("/api/v2/dags", limit=100)["dags"]}

    def dag_runs(self, dag_id: str) -> list[Json]:
        """All runs of a DAG, oldest first."""
        return list(self._get(f"/api/v2/dags/{dag_id}/dagRuns", limit=100, order_by="run_after")["dag_runs"])

    def task(self, dag_id: str, run_id: str, task_id: str) -> Json:
        """The newest try of a task."""
        return self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")

    def tries(self, dag_id: str, run_id: str, task_id: str) -> list[Json]:
        """Every try of a task, oldest first."""
        answer = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/tries")
        return sorted(answer["task_instances"], key=lambda entry: entry["try_number"])

    def xcoms(self, dag_id: str, run_id: str, task_id: str) -> Json:
        """Key to value of what the newest try of a task handed on."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries"
        keys = [entry["key"] for entry in self._get(path, limit=100)["xcom_entries"]]
        return {key: self._get(f"{path}/{key}")["value"] for key in keys}

    def _get(self, path: str, **params: Any) -> Json:
        answer = self._http.get(path, params=params)
        if answer.status_code == 401:
            self._authenticate()
            answer = self._http.get(path, params=params)
        if answer.status_code != 200:
            raise DemoFailed(f"Airflow answered {answer.status_code} to GET {path}")
        body: Json = answer.json()
        return body

    def _authenticate(self) -> None:
        answer = self._http.post("/auth/token", json=self._login)
        if answer.status_code not in (200, 201):
            raise DemoFailed(f"Airflow refused the demo's login ({answer.status_code})")
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
