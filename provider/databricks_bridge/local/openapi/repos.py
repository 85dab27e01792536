"""Operations on Git folders."""

from __future__ import annotations

from typing import Any

from databricks_bridge.local.openapi.known import Known
from databricks_bridge.local.openapi.model import (
    Operation,
    Operations,
    anything,
    fields,
    flag,
    listing,
    one_of,
    tagged,
    text,
    under,
    whole,
)
from databricks_bridge.local.server.repos import PROVIDERS


def operations() -> Operations:
    """All of them. The official hook writes two slashes before the id, which are served as one."""
    folder = fields("id", "path", "url", id=whole(), path=text(), url=text(), branch=text(), head_commit_id=text())
    path = {"repo_id": whole()}

    def first(known: Known) -> dict[str, Any]:
        return {"repo_id": known.repo}

    found: Operations = {
        ("POST", ""): Operation(
            "Clone a repository, over https",
            body={"url": text(), "provider": one_of(*PROVIDERS), "path": text()},
            required=("url", "provider"),
            answer=folder,
        ),
        ("GET", ""): Operation(
            "The Git folders below a path, or below /Repos",
            query={"path_prefix": text(), "next_page_token": text()},
            answer=fields("repos", repos=listing(folder)),
        ),
        ("GET", "{repo_id}"): Operation("One Git folder", path=path, answer=folder, example=first),
        ("PATCH", "{repo_id}"): Operation(
            "Go to the newest commit of a branch, or to a tag",
            path=path,
            body={"branch": text(), "tag": text(), "dangerously_force_discard_all": flag()},
            answer=folder,
            example=lambda known: {**first(known), "branch": "main"},
        ),
        ("DELETE", "{repo_id}"): Operation("Delete a Git folder", path=path, answer=anything(), example=first),
    }
    return tagged("git folders", under(("/api/2.0/repos",), found))
