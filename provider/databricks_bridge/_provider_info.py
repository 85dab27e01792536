"""What Airflow reads at provider discovery. No imports here: discovery runs in every Airflow process."""

INTEGRATION = "Databricks Bridge"


def get_provider_info() -> dict[str, object]:
    """The provider's metadata, as Airflow's provider_info.schema.json wants it.

    There is no connection type of our own: connections are of the official provider's type `databricks`.
    """
    return {
        "package-name": "airflow-provider-databricks-bridge",
        "name": INTEGRATION,
        "description": "Hybrid orchestration: wait on Delta versions and trigger-fired runs of Databricks, "
        "and run downstream jobs exactly once for each range.",
        "integrations": [
            {
                "integration-name": INTEGRATION,
                "external-doc-url": "https://docs.databricks.com/aws/en/jobs/triggers",
                "tags": ["service"],
            }
        ],
        "operators": _modules("operators.around", "operators.incremental_run"),
        "sensors": _modules("sensors.delta_version", "sensors.subscription", "sensors.triggered_run"),
        "triggers": _modules(
            "triggers.delta_version",
            "triggers.pause",
            "triggers.run",
            "triggers.subscription",
            "triggers.triggered_run",
            "triggers.watch",
        ),
        "extra-links": ["databricks_bridge.links.run.DatabricksRunLink"],
        "config": {
            "databricks_bridge": {
                "description": "Settings of the Databricks Bridge provider.",
                "options": {
                    "ledger": {
                        "description": "Where subscriptions that name no ledger of their own keep their record.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": None,
                        "default": "airflow",
                    }
                },
            }
        },
    }


def _modules(*names: str) -> list[dict[str, object]]:
    modules = [f"databricks_bridge.{name}" for name in names]
    return [{"integration-name": INTEGRATION, "python-modules": modules}]
