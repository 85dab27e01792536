"""Write `fields.json` anew, from the SDK that is installed."""

from __future__ import annotations

from databricks_bridge.local.request_fields.declaration import FILE
from databricks_bridge.local.request_fields.from_sdk import declared_by_sdk, written

if __name__ == "__main__":
    FILE.write_text(written(declared_by_sdk()))
