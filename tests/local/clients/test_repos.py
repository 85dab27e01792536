"""Git folders with the official SDK and the official operators. The remote is a bare repository on this disk.

git itself is told to look there for `https://github.com/acme/`, by its own `url.<base>.insteadOf`.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from databricks_bridge.core.errors import InvalidArgument
from databricks_bridge.local import git
from databricks_bridge.local.deployment import Deployment
from tests.local.local_kit import client

URL = "https://github.com/acme/flights.git"
CONTEXT: Any = {}


class Remote:
    """A bare repository, and a clone of it to commit in."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder / "acme" / "flights.git")], check=True)
        subprocess.run(["git", "clone", "-q", str(folder / "acme" / "flights.git"), str(self.clone)], check=True)
        self.git("checkout", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=self.clone, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, name: str, text: str) -> str:
        (self.clone / name).write_text(text)
        self.git("add", name)
        self.git("commit", "-q", "-m", name)
        self.git("push", "-q", "--all")
        self.git("push", "-q", "--tags")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    made = Remote(tmp_path / "remote")
    settings = {
        f"url.{(tmp_path / 'remote' / 'acme').as_uri()}/.insteadOf": "https://github.com/acme/",
        # The server allows https alone; whoever starts it may allow more.
        "protocol.file.allow": "always",
        "safe.bareRepository": "all",
    }
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, (name, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", name)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    return made


def left(deployment: Deployment) -> list[str]:
    return sorted(one.name for one in (deployment.layout.home / "workspaces" / "ops" / "repos").glob("*"))


def test_a_git_folder_with_the_sdk(deployment: Deployment, ops: Any, remote: Remote) -> None:
    from databricks.sdk.errors import NotFound

    first = remote.commit("main.py", "# Databricks notebook source\nprint(1)\n")
    (remote.clone / "away").symlink_to("/etc/passwd")
    remote.git("add", "away")
    second = remote.commit("data.csv", "a\n")
    remote.git("tag", "v1", first)
    remote.git("checkout", "-q", "-b", "side/one")
    third = remote.commit("side.csv", "b\n")
    ops.workspace.mkdirs("/Repos/team")
    made = ops.repos.create(URL, "GITHUB", path="/Repos/team/flights")
    assert (made.branch, made.head_commit_id, made.provider, made.url) == ("main", second, "gitHub", URL)
    status = ops.workspace.get_status("/Repos/team/flights")
    assert (status.object_type.value, status.object_id) == ("REPO", made.id)
    found = {one.path: one.object_type.value for one in ops.workspace.list("/Repos/team/flights")}
    assert found == {
        "/Repos/team/flights/main": "NOTEBOOK",
        "/Repos/team/flights/data.csv": "FILE",
        "/Repos/team/flights/away": "FILE",
    }
    with ops.workspace.download("/Repos/team/flights/away") as content:
        assert content.read() == b"/etc/passwd"  # the text of the link, which leads nowhere

    ops.repos.update(made.id, tag="v1")
    at_tag = ops.repos.get(made.id)
    assert (at_tag.head_commit_id, at_tag.branch) == (first, None)
    assert [one.path for one in ops.workspace.list("/Repos/team/flights")] == ["/Repos/team/flights/main"]
    ops.repos.update(made.id, branch="side/one")
    assert ops.repos.get(made.id).head_commit_id == third
    remote.git("checkout", "-q", "main")
    fourth = remote.commit("data.csv", "c\n")
    ops.repos.update(made.id, branch="main")
    assert (ops.repos.get(made.id).head_commit_id, ops.repos.get(made.id).branch) == (fourth, "main")
    assert [repo.id for repo in ops.repos.list()] == [made.id]
    assert [repo.id for repo in ops.repos.list(path_prefix="/Workspace/Repos/team")] == [made.id]
    assert list(ops.repos.list(path_prefix="/Repos/other")) == []
    assert list(client(deployment, "met").repos.list()) == []

    ops.repos.delete(made.id)
    with pytest.raises(NotFound, match="could not be found"):
        ops.repos.get(made.id)
    with pytest.raises(NotFound):
        ops.workspace.get_status("/Repos/team/flights")
    assert left(deployment) == []


def test_changed_files_are_not_lost_unless_that_is_asked_for(ops: Any, remote: Remote) -> None:
    from databricks.sdk.errors import BadRequest
    from databricks.sdk.service.workspace import ImportFormat

    remote.commit("data.csv", "a\n")
    made = ops.repos.create(URL, "gitHub")
    assert made.path == "/Repos/local-workspace/flights"
    ops.workspace.upload(f"{made.path}/data.csv", b"mine", format=ImportFormat.RAW, overwrite=True)
    remote.commit("data.csv", "b\n")
    with pytest.raises(BadRequest, match=r"have been changed: M data\.csv") as conflict:
        ops.repos.update(made.id, branch="main")
    assert conflict.value.error_code == "GIT_CONFLICT"
    ops.repos.update(made.id, branch="main", dangerously_force_discard_all=True)
    with ops.workspace.download(f"{made.path}/data.csv") as content:
        assert content.read() == b"b\n"
    ops.workspace.upload(f"{made.path}/new.csv", b"mine", format=ImportFormat.RAW)
    remote.commit("new.csv", "theirs\n")
    with pytest.raises(BadRequest, match=r"new.csv.*would be overwritten") as conflict:
        ops.repos.update(made.id, branch="main")
    assert conflict.value.error_code == "GIT_CONFLICT"


def test_what_is_refused_leaves_nothing(deployment: Deployment, ops: Any, remote: Remote, tmp_path: Path) -> None:
    remote.commit("data.csv", "a\n")
    headers = {"Authorization": f"Bearer {deployment.token('ops')}"}
    known = {"url": URL, "provider": "gitHub", "path": "/Repos/local-workspace/flights"}
    made = ops.repos.create(URL, "gitHub")

    def refused(method: str, path: str, body: dict[str, Any]) -> tuple[str, str]:
        answer = httpx.request(method, f"{deployment.host('ops')}/api/2.0/repos{path}", json=body, headers=headers)
        assert answer.status_code in (400, 404), answer.text
        assert "hunter2" not in answer.text
        return answer.json()["error_code"], answer.json()["message"]

    for change, code in (
        ({"url": None}, "INVALID_PARAMETER_VALUE"),
        ({"provider": "sourceForge"}, "INVALID_PARAMETER_VALUE"),
        ({"path": "/Repos/flights"}, "INVALID_PARAMETER_VALUE"),
        ({"path": "/Repos/../etc"}, "INVALID_PARAMETER_VALUE"),
        ({"path": "/Repos/nobody/flights"}, "RESOURCE_DOES_NOT_EXIST"),
        ({}, "RESOURCE_ALREADY_EXISTS"),
        ({"git_credential_id": 1}, "FEATURE_DISABLED"),
        ({"sparse_checkout": {"patterns": ["a"]}}, "FEATURE_DISABLED"),
        ({"url": "https://me:hunter2@github.com/acme/flights"}, "INVALID_PARAMETER_VALUE"),
    ):
        assert refused("POST", "", {**known, **change})[0] == code, change
    gone = refused("POST", "", {**known, "url": f"{URL}x", "path": "/Repos/local-workspace/none"})
    assert gone[0] == "GIT_REMOTE_ERROR"
    assert refused("PATCH", f"/{made.id}", {"branch": "main", "tag": "v1"})[0] == "INVALID_PARAMETER_VALUE"
    for name in ("none", "--help", "a b", "../main", "main^"):
        assert refused("PATCH", f"/{made.id}", {"branch": name})[0] == "GIT_REMOTE_ERROR", name
    assert refused("PATCH", "/1", {"branch": "main"})[0] == "RESOURCE_DOES_NOT_EXIST"
    assert left(deployment) == [f"{made.id}.git", f"{made.id}.json"]
    assert [one.path for one in ops.workspace.list("/Repos/local-workspace")] == [made.path]


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c id",
        "file:///etc",
        "/etc",
        "../repo",
        "git@github.com:acme/flights",
        "ssh://github.com/acme/flights",
        "http://github.com/acme/flights",
        "--upload-pack=id",
        "-https://github.com/acme/flights",
        "https://",
        "https:///acme",
        "https://github.com/",
        "https://-host/acme",
        "https://github.com:x/acme",
        "https://github.com/acme flights",
        "https://github.com/acme\n",
        "https://github.com/acme?x=1",
        "https://me:hunter2@github.com/acme/flights",
    ],
)
def test_a_url_is_https_or_nothing(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        git.checked_url(url)
    assert "hunter2" not in str(refused.value)


async def test_git_speaks_https_alone_has_a_time_and_shows_no_credentials(tmp_path: Path) -> None:
    for url in (tmp_path.as_uri(), "ext::sh -c id"):
        with pytest.raises(git.GitFailed, match="not allowed"):
            await git.git("clone", "--", url, str(tmp_path / "x"), environ={"PATH": "/usr/bin:/bin"})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/acme/flights"
        with pytest.raises(git.GitFailed, match=r"git ls-remote did not end within 0\.5 s"):
            await git.git("ls-remote", url, seconds=0.5)
    assert (
        git.without_credentials("at https://me:hunter2@host/x and http://t@host") == "at https://host/x and http://host"
    )


def test_without_git_it_says_so(ops: Any, remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    from databricks.sdk.errors import BadRequest

    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadRequest, match="There is no git command on this machine"):
        ops.repos.create(URL, "gitHub")


def test_the_official_operators(ops: Any, remote: Remote, connection: str) -> None:
    from airflow.providers.databricks.operators.databricks_repos import (
        DatabricksReposCreateOperator,
        DatabricksReposDeleteOperator,
        DatabricksReposUpdateOperator,
    )

    first = remote.commit("data.csv", "a\n")
    remote.git("tag", "v1")
    second = remote.commit("data.csv", "b\n")
    ops.workspace.mkdirs("/Repos/team")
    path = "/Repos/team/flights"
    known: dict[str, Any] = {"task_id": "it", "databricks_conn_id": connection, "repo_path": path}
    create = DatabricksReposCreateOperator(git_url=URL, tag="v1", **known)
    repo_id = create.execute(CONTEXT)
    assert ops.repos.get(repo_id).head_commit_id == first
    with pytest.raises(Exception, match="already exists"):
        create.execute(CONTEXT)
    again = DatabricksReposCreateOperator(git_url=URL, branch="main", ignore_existing_repo=True, **known)
    assert again.execute(CONTEXT) == str(repo_id)
    assert ops.repos.get(repo_id).head_commit_id == second
    assert DatabricksReposUpdateOperator(tag="v1", **known).execute(CONTEXT) == first
    DatabricksReposDeleteOperator(**known).execute(CONTEXT)
    assert list(ops.repos.list()) == []
