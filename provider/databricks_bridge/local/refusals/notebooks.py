"""Notebook utilities and magics that are not served."""

from __future__ import annotations

from databricks_bridge.local.refusals.model import Area, Refusal, refusals

_HEADER = "# Databricks notebook source\n# MAGIC "


def _magic(name: str) -> tuple[str, str, str]:
    return f"the local workspace does not serve {name}", "DOC", f"{_HEADER}{name} x"


def _utility(name: str, call: str) -> tuple[str, str, str]:
    return f"{name} is not served by the local workspace", "DOC", f"dbutils.{call}"


REFUSALS: tuple[Refusal, ...] = refusals(
    Area.NOTEBOOK,
    {
        "%run": _magic("%run"),
        "%pip": _magic("%pip"),
        "%sh": _magic("%sh"),
        "%fs": _magic("%fs"),
        "%scala, %r": _magic("%scala"),
        "dbutils.notebook.run": _utility("dbutils.notebook.run", "notebook.run('/a')"),
        "dbutils.secrets": _utility("dbutils.secrets.get", "secrets.get('a', 'b')"),
        "dbutils.library": _utility("dbutils.library.restartPython", "library.restartPython()"),
        "dbutils.credentials": _utility("dbutils.credentials.showRoles", "credentials.showRoles()"),
        "dbutils.data": _utility("dbutils.data.summarize", "data.summarize(1)"),
        "dbutils.fs outside of volumes": (
            "dbutils.fs of the local workspace serves /Volumes/... paths only",
            "DOC",
            "dbutils.fs.ls('/tmp')",
        ),
        "other parts of dbutils": _utility("dbutils.preview", "preview"),
        "other parts of the job context": (
            "is not served by the local workspace",
            "DOC",
            "dbutils.notebook.entry_point.getDbutils().notebook().getContext().sparkVersion()",
        ),
    },
)
