"""`python -m databricks_bridge.local.refusals docs`: write the tables of what is not served into the documents of a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from databricks_bridge.local.refusals.tables import written


def main(folder: Path) -> None:
    """:param folder: where the documents are, as *.md"""
    for document in sorted(folder.glob("*.md")):
        before = document.read_text()
        if (after := written(before)) != before:
            document.write_text(after)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
