"""Git folders over HTTP (Repos API 2.0): create, get, list, update, delete. Each is a real clone among the workspace's files.

The repository itself, and what a folder cannot say of it, lie beside the files and not among them: a Git folder shows no
`.git`, and nothing in a repository can pose as one.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local.git import GitFailed, NoGit, checked_url, git, without_credentials
from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.server.errors import (
    ApiError,
    FeatureDisabled,
    InvalidParameterValue,
    ResourceAlreadyExists,
    ResourceDoesNotExist,
)
from databricks_bridge.local.server.requests import Arguments, read
from databricks_bridge.local.server.responses import JSONResponse
from databricks_bridge.local.server.workspace_files_tree import Tree

PROVIDERS = (
    "gitHub",
    "bitbucketCloud",
    "gitLab",
    "azureDevOpsServices",
    "gitHubEnterprise",
    "bitbucketServer",
    "gitLabEnterpriseEdition",
    "awsCodeCommit",
)
Body = dict[str, Any]


class GitRemoteError(ApiError):
    status: ClassVar[int] = 400
    error_code: ClassVar[str] = "GIT_REMOTE_ERROR"


class GitConflict(ApiError):
    status: ClassVar[int] = 400
    error_code: ClassVar[str] = "GIT_CONFLICT"


def router(workspace: Workspace) -> APIRouter:
    """`/api/2.0/repos` and below."""
    folders = GitFolders(workspace)
    routes = APIRouter(prefix="/api/2.0/repos")

    @routes.post("")
    async def create(request: Request) -> JSONResponse:
        return JSONResponse(await folders.create(await read(request, "POST repos")))

    @routes.get("")
    async def listing(request: Request) -> JSONResponse:
        prefix = (await read(request)).text("path_prefix") or ""
        return JSONResponse({"repos": await run_in_threadpool(folders.listing, prefix)})

    # The official hook's addresses have two slashes.
    @routes.get("/{repo_id}")
    @routes.get("//{repo_id}")
    async def get(repo_id: int) -> JSONResponse:
        return JSONResponse(folders.existing(repo_id))

    @routes.patch("/{repo_id}")
    @routes.patch("//{repo_id}")
    async def update(repo_id: int, request: Request) -> JSONResponse:
        return JSONResponse(await folders.update(repo_id, await read(request, "PATCH repos")))

    @routes.delete("/{repo_id}")
    @routes.delete("//{repo_id}")
    async def delete(repo_id: int) -> JSONResponse:
        await run_in_threadpool(folders.delete, repo_id)
        return JSONResponse({})

    return routes


class GitFolders:
    """The Git folders of one workspace; one change at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._tree = Tree(workspace.layout.workspace_files(workspace.name))
        self._changing = asyncio.Lock()

    def existing(self, repo_id: int) -> Body:
        """Raises ResourceDoesNotExist."""
        try:
            known = dict(json.loads(self._card(repo_id).read_text()))
        except FileNotFoundError:
            known = {}
        if not known or not self._tree.file_of(known["path"]).is_dir():
            raise ResourceDoesNotExist(f"Repo {repo_id} could not be found.")
        return known

    def listing(self, prefix: str) -> list[Body]:
        """Those whose path begins with `prefix`, by path; with no prefix those below /Repos."""
        plain = prefix.removeprefix("/Workspace").rstrip("/") or "/Repos"
        found = []
        for card in self._tree.repos.glob("*.json"):
            known = dict(json.loads(card.read_text()))
            if known["path"].startswith(plain) and self._tree.file_of(known["path"]).is_dir():
                found.append(known)
        return sorted(found, key=lambda known: str(known["path"]))

    async def create(self, given: Arguments) -> Body:
        """Clone. A clone that fails leaves nothing."""
        url, provider = _url(given.text("url")), _provider(given.text("provider"))
        _refuse_what_is_not_here(given)
        path = self._new_path(given.text("path"), url)
        async with self._changing:
            target = self._tree.file_of(path)
            if target.exists() or target.with_name(f"{target.name}.py").exists():
                raise ResourceAlreadyExists(f"Path ({path}) already exists.")
            if not target.parent.is_dir():
                raise ResourceDoesNotExist(f"The parent folder ({PurePosixPath(path).parent}) does not exist.")
            draft = self._tree.repos / f"draft-{uuid.uuid4()}"
            try:
                known = await self._clone(url, provider, path, draft)
                self._put(draft, target, known)
            finally:
                await run_in_threadpool(shutil.rmtree, draft, True)
        return known

    async def _clone(self, url: str, provider: str, path: str, draft: Path) -> Body:
        files, repository = draft / "files", draft / "git"
        files.mkdir(parents=True)
        await _run("clone", "--quiet", "--no-checkout", "--bare", "--template=", "--", url, str(repository))
        await _run("config", "core.bare", "false", folder=repository)
        await _run("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*", folder=repository)
        await _run("fetch", "--quiet", "--no-recurse-submodules", "origin", folder=repository)
        branch = await _run("symbolic-ref", "--short", "HEAD", folder=repository)
        await _run("reset", "--quiet", "--hard", folder=repository, work_tree=files)
        return {
            "id": self._tree.number(path),
            "path": path,
            "url": without_credentials(url),
            "provider": provider,
            "branch": branch,
            "head_commit_id": await _run("rev-parse", "HEAD", folder=repository),
        }

    def _put(self, draft: Path, target: Path, known: Body) -> None:
        repository = self._repository(known["id"])
        shutil.rmtree(repository, ignore_errors=True)  # of a folder that was deleted as a directory
        (draft / "git").rename(repository)
        self._keep(known)
        (draft / "files").rename(target)

    async def update(self, repo_id: int, given: Arguments) -> Body:
        """Go to the newest commit of a branch, or to a tag. Raises GitConflict where files have been changed."""
        branch, tag = given.text("branch"), given.text("tag")
        if (branch is None) == (tag is None):
            raise InvalidParameterValue("Give one of branch and tag.")
        _refuse_what_is_not_here(given)
        async with self._changing:
            known = self.existing(repo_id)
            where: dict[str, Any] = {
                "folder": self._repository(repo_id),
                "work_tree": self._tree.file_of(known["path"]),
            }
            await _run("fetch", "--quiet", "--prune", "--force", "--tags", "--no-recurse-submodules", "origin", **where)
            name = f"refs/remotes/origin/{branch}" if branch else f"refs/tags/{tag}"
            try:
                await git("check-ref-format", name, **where)
                commit = await git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", **where)
            except GitFailed:
                what = f"branch {branch!r}" if branch else f"tag {tag!r}"
                raise GitRemoteError(f"The {what} does not exist in the remote repository.") from None
            if given.boolean("dangerously_force_discard_all"):
                await _run("reset", "--quiet", "--hard", **where)
                await _run("clean", "--quiet", "--force", "-d", "-x", **where)
            elif changed := await _run("status", "--porcelain", "--untracked-files=no", **where):
                raise GitConflict(f"Files of the Git folder have been changed: {changed}")
            # Not `checkout`: with a detached HEAD no name of a branch is ever an argument.
            try:
                await git("read-tree", "-m", "-u", "HEAD", commit, **where)
            except GitFailed as error:
                raise GitConflict(str(error)) from None
            await _run("update-ref", "--no-deref", "HEAD", commit, **where)
            known = {**known, "branch": branch, "head_commit_id": commit}
            if branch is None:
                del known["branch"]
            self._keep(known)
        return known

    def delete(self, repo_id: int) -> None:
        known = self.existing(repo_id)
        self._card(repo_id).unlink()
        gone = self._tree.repos / f"draft-{uuid.uuid4()}"
        gone.mkdir()
        self._tree.file_of(known["path"]).rename(gone / "files")
        self._repository(repo_id).rename(gone / "git")
        shutil.rmtree(gone)

    def _new_path(self, given: str | None, url: str) -> str:
        name = PurePosixPath(url.rstrip("/")).name.removesuffix(".git")
        if given is None:
            self._tree.make_directories(f"/Repos/{self._workspace.user_name}")
            return f"/Repos/{self._workspace.user_name}/{name}"
        path = self._tree.plain(given)
        parts = PurePosixPath(path).parts
        if len(parts) < 2 or (parts[1] == "Repos" and len(parts) != 4):
            raise InvalidParameterValue(f"path is {given!r}; below /Repos it must be /Repos/{{folder}}/{{repo-name}}.")
        return path

    def _card(self, repo_id: int) -> Path:
        return self._tree.repos / f"{repo_id}.json"

    def _repository(self, repo_id: int) -> Path:
        return self._tree.repos / f"{repo_id}.git"

    def _keep(self, known: Body) -> None:
        draft = self._tree.repos / f"draft-{uuid.uuid4()}.tmp"
        draft.write_text(json.dumps(known))
        draft.replace(self._card(known["id"]))


async def _run(*arguments: str, **where: Any) -> str:
    try:
        return await git(*arguments, **where)
    except NoGit as error:
        raise FeatureDisabled(str(error)) from None
    except GitFailed as error:
        raise GitRemoteError(str(error)) from None


def _url(url: str | None) -> str:
    if url is None:
        raise InvalidParameterValue("Missing required field: url")
    try:
        return checked_url(url)
    except InvalidArgument as error:
        raise InvalidParameterValue(str(error)) from None


def _provider(given: str | None) -> str:
    for provider in PROVIDERS:
        if given is not None and provider.lower() == given.lower():
            return provider
    raise InvalidParameterValue(f"provider is {given!r}; use one of {', '.join(PROVIDERS)}")


def _refuse_what_is_not_here(given: Arguments) -> None:
    for name in ("sparse_checkout", "git_credential_id"):
        if given.values.get(name) is not None:
            raise FeatureDisabled(f"{name} is not supported by the local workspace")
