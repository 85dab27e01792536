"""What a page is asked and what it answers with: values, so that no page knows of HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from databricks_bridge.local.ports import Workspace

_ID = re.compile(r"[0-9]{1,19}", re.ASCII)
LARGEST = 2**63


@dataclass(frozen=True)
class Upload:
    """A file that a form sent."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Asked:
    """One request of somebody who has signed in. `path` are the parts of the address that vary.

    `form_value` belongs into every form of the page. `form` and `uploads` are what a form sent, empty for a page that is
    only looked at.
    """

    workspace: Workspace
    form_value: str = field(repr=False)
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    uploads: Mapping[str, Upload] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        """A number of the query from 0 on, None where it is not there or is none."""
        return whole(self.query.get(name, ""))


@dataclass(frozen=True)
class Page:
    """`body` is HTML. `section` is the entry of the navigation that it belongs to; `live` pages load themselves anew."""

    title: str
    body: str
    section: str = ""
    live: bool = False
    status: int = 200
    script: str = ""


@dataclass(frozen=True)
class Goto:
    """After something was done: the page that shows it, a path on this site."""

    path: str


def whole(text: str) -> int | None:
    """A number that the store can hold, or None."""
    if not _ID.fullmatch(text):
        return None
    number = int(text)
    return number if number < LARGEST else None
