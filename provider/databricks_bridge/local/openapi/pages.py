"""The pages for people and their buttons, as far as a program is concerned: they want a signed-in browser."""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.openapi.known import Known
from databricks_bridge.local.openapi.model import FORM, PAGE, Operation, Operations, tagged, text
from databricks_bridge.local.pages.databricks_links import LINKS
from databricks_bridge.local.pages.site import ACTIONS, PAGES


def operations() -> Operations:
    """Each page and each button; without a sign-in both lead to it."""
    shown = Operation("A page; 303 to the sign-in without one", gives=PAGE, answer=text(), example=_what_there_is)
    pressed = Operation("A button of a page; 303 to the page after it", takes=FORM, body={}, gives=PAGE, status=303)
    led = Operation("An address of Databricks' own pages: 303 to the page here", gives=PAGE, status=303)
    found: Operations = {
        **{("GET", path): shown for path in PAGES},
        **{("POST", path): pressed for path in ACTIONS},
        **{("GET", path): led for path in LINKS},
        ("GET", "/local/sign-in"): shown,
        ("POST", "/local/sign-in"): pressed,
        ("POST", "/local/sign-out"): pressed,
    }
    return tagged("pages", found)


def _what_there_is(known: Known) -> dict[str, Any]:
    """By the names that paths of pages have; what is left over is not in the path."""
    return {
        "job_id": known.job,
        "run_id": known.ended_run,
        "name": known.table,
        "path": (known.folder or "").removeprefix("Volumes/") or None,
    }
