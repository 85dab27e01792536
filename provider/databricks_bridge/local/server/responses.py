"""The JSON that every answer of the server is written as."""

from __future__ import annotations

from typing import Any

from fastapi import responses

from databricks_bridge.local.texts import whole_texts


class JSONResponse(responses.JSONResponse):
    """Never fails on text that UTF-8 cannot write, such as a file's name that is none: see `local/texts.py`."""

    def render(self, content: Any) -> bytes:
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return super().render(whole_texts(content))
