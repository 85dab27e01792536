"""The `git` command, for Git folders: https alone, in a time, without questions, hooks, links or submodules.

What the user's own git is told (a credential helper, `url.<base>.insteadOf`) holds here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from databricks_bridge.core.errors import BridgeError, InvalidArgument
from databricks_bridge.local.private import UMASK

TIMEOUT_SECONDS = 120.0
_SETTINGS = (
    "protocol.allow=never",
    "protocol.https.allow=always",
    # A link of a repository could lead out of the workspace's files.
    "core.symlinks=false",
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "credential.interactive=false",
    "gc.auto=0",
)
_CREDENTIAL = re.compile(r"(?<=//)[^/?#\s'\"]*@")  # as far as the last one: a password may hold an @
_NO_URL = re.compile(r"[\s\x00-\x1f\x7f\\]")


class GitFailed(BridgeError):
    """git ended with an error, or not in time. The message is its own, without credentials."""


class NoGit(BridgeError):
    """There is no git on this machine."""


def checked_url(url: str) -> str:
    """The URL of a remote repository. Raises InvalidArgument for all but `https://host/path`, and for a password in it."""
    try:
        parts = urlsplit(url)
        port_is_number = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_number = urlsplit(""), False
    if parts.scheme != "https" or not parts.hostname or not port_is_number or _NO_URL.search(url):
        raise InvalidArgument("url must be the https:// address of a Git repository")
    if parts.hostname.startswith("-") or parts.path in ("", "/") or parts.query or parts.fragment:
        raise InvalidArgument("url must be the https:// address of a Git repository, with a path and nothing after it")
    if parts.password is not None:
        raise InvalidArgument("url holds a password; leave it to a credential helper of git")
    return url


async def git(
    *arguments: str,
    folder: Path | None = None,
    work_tree: Path | None = None,
    seconds: float = TIMEOUT_SECONDS,
    environ: Mapping[str, str] | None = None,
) -> str:
    """What git prints, in the repository `folder` with this work tree. Raises NoGit, GitFailed."""
    command = shutil.which("git")
    if command is None:
        raise NoGit("There is no git command on this machine; Git folders need it. Install git.")
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    where = [f"--git-dir={folder}"] if folder else []
    where += [f"--work-tree={work_tree}"] if work_tree else []
    process = await asyncio.create_subprocess_exec(
        *(command, *settings, *where, *arguments),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=work_tree or folder,
        env=_environment(os.environ if environ is None else environ),
        start_new_session=True,
        umask=UMASK,
    )
    try:
        async with asyncio.timeout(seconds):
            said, complained = await process.communicate()
    except TimeoutError:
        raise GitFailed(f"git {arguments[0]} did not end within {seconds:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode != 0:
        raise GitFailed(f"git {arguments[0]}: {without_credentials(complained.decode(errors='replace').strip())}")
    return said.decode(errors="replace").strip()


def without_credentials(text: str) -> str:
    """The text with no user or password in any URL of it."""
    return _CREDENTIAL.sub("", text)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Ours, without what points git at another repository, and with nobody to ask."""
    # GIT_CONFIG_* stays: it is how the user's own settings may be given.
    kept = {
        name: value for name, value in environ.items() if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
    }
    return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "", "LC_ALL": "C"}
