"""Jupyter notebooks (nbformat 4) into Databricks' source format, as an import makes them, and out of it."""

from __future__ import annotations

import json
import re
from typing import Any

from databricks_bridge.local.server.errors import InvalidParameterValue
from databricks_bridge.local.server.workspace_files_tree import HEADER

SUFFIX = ".ipynb"
_BETWEEN = "\n\n# COMMAND ----------\n\n"
_SEPARATOR = re.compile(r"^# COMMAND -+[^\S\n]*$", re.MULTILINE)
_MAGIC = "# MAGIC "


def source_of(content: bytes) -> bytes:
    """The notebook's cells as Python source; outputs are left out. Raises InvalidParameterValue."""
    try:
        cells = json.loads(content.decode())["cells"]
        texts = [_cell(cell) for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidParameterValue("The content is not a Jupyter notebook (nbformat 4).") from None
    return HEADER + b"\n" + _BETWEEN.join(texts).encode(errors="replace") + b"\n"


def notebook_of(source: bytes) -> bytes:
    """The other way: a notebook of nbformat 4 from Python source, without outputs."""
    text = source.decode(errors="replace").removeprefix("\ufeff").removeprefix(HEADER.decode())
    cells = [_jupyter_cell(cell.strip("\n")) for cell in _SEPARATOR.split(text)]
    language = {"language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": language, "nbformat": 4, "nbformat_minor": 0}).encode()


def _jupyter_cell(text: str) -> dict[str, Any]:
    if text.startswith(_MAGIC):
        text = "\n".join(line.removeprefix(_MAGIC.rstrip()).removeprefix(" ") for line in text.split("\n"))
    if text.startswith("%md"):
        return {"cell_type": "markdown", "metadata": {}, "source": text.removeprefix("%md").lstrip(" \n")}
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text}


def _cell(cell: dict[str, Any]) -> str:
    source = cell["source"]
    text = (source if isinstance(source, str) else "".join(source)).strip("\n")
    if cell["cell_type"] != "code":
        return _magic(f"%md\n{text}")
    return _magic(text) if text.startswith("%") else text


def _magic(text: str) -> str:
    return "\n".join(f"{_MAGIC}{line}".rstrip() for line in text.split("\n"))
