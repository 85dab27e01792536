"""`python -m databricks_bridge.local`."""

from __future__ import annotations

import sys

from databricks_bridge.local import main

sys.exit(main())
