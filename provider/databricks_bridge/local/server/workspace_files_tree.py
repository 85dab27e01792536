"""Workspace objects as files: a notebook `/a/b` is `a/b.py` or `a/b.sql` with the notebook header, a file is itself.

On Databricks the notebook `/a/b` and the file `/a/b.py` are two objects; here they cannot both be.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from databricks_bridge.local.layout import LeadsOutside, checked, is_inside
from databricks_bridge.local.server.errors import (
    ApiError,
    InvalidParameterValue,
    ResourceAlreadyExists,
    ResourceDoesNotExist,
)

HEADER = b"# Databricks notebook source"
SQL_HEADER = b"-- Databricks notebook source"
_LANGUAGES = {
    ".py": ("PYTHON", HEADER),
    ".sql": ("SQL", SQL_HEADER),
    ".scala": ("SCALA", b"// Databricks notebook source"),
    ".r": ("R", HEADER),
    ".R": ("R", HEADER),
}
"""Of notebooks, by their extension on this disk."""
LARGEST_IMPORT_BYTES = 10 * 1024 * 1024
DEEPEST_PATH = 100


class DirectoryNotEmpty(ApiError):
    status: ClassVar[int] = 400
    error_code: ClassVar[str] = "DIRECTORY_NOT_EMPTY"


class DirectoryProtected(ApiError):
    status: ClassVar[int] = 400
    error_code: ClassVar[str] = "DIRECTORY_PROTECTED"


class NotebookTooLarge(ApiError):
    status: ClassVar[int] = 400
    error_code: ClassVar[str] = "MAX_NOTEBOOK_SIZE_EXCEEDED"


@dataclass(frozen=True)
class Tree:
    """The workspace files of one workspace, below `root`. Paths are the API's: absolute, `/Workspace` optional.

    What a link takes out of `root` is not there: ResourceDoesNotExist.
    """

    root: Path

    @property
    def repos(self) -> Path:
        """Where the repositories of Git folders lie, each with a card `<object id>.json`: beside the files."""
        return self.root.with_name("repos")

    @staticmethod
    def number(path: str) -> int:
        """The object id of what lies at a path without `/Workspace`."""
        return int.from_bytes(hashlib.sha256(path.encode(errors="surrogatepass")).digest()[:6])

    def plain(self, path: str) -> str:
        """The path without `/Workspace`. Raises InvalidParameterValue for one that is not absolute."""
        return _plain(path)

    def file_of(self, path: str) -> Path:
        """Where a directory or file of this path is, or would be."""
        return self._location(path)

    def status(self, path: str) -> dict[str, Any]:
        """With the path as it was asked for, below `/Workspace` too. Raises ResourceDoesNotExist."""
        info = self._info(self._existing(path))
        below = PurePosixPath(path).parts[:2] == ("/", "Workspace") and info["path"] != "/"
        return {**info, "path": f"/Workspace{info['path']}"} if below else info

    def make_home(self, user: str) -> None:
        """What a new workspace has: the user's folder, the shared one, and the user's folder of repositories."""
        for path in (f"/Users/{user}", "/Shared", f"/Repos/{user}"):
            self._location(path).mkdir(parents=True, exist_ok=True)

    def by_number(self, number: int) -> dict[str, Any] | None:
        """The object with this id, or None. An id does not tell its path, so all are looked at."""
        for file in (self.root, *self.root.rglob("*")):
            if file.exists() and is_inside(file, self.root) and (info := self._info(file))["object_id"] == number:
                return info
        return None

    def listing(self, path: str) -> list[dict[str, Any]]:
        """The objects in a directory, or the object itself. Raises ResourceDoesNotExist."""
        found = self._existing(path)
        if not found.is_dir():
            return [self._info(found)]
        children = [child for child in sorted(found.iterdir()) if child.exists() and is_inside(child, self.root)]
        return [self._info(child) for child in children]

    def read(self, path: str) -> tuple[bytes, str]:
        """Content and extension. Raises ResourceDoesNotExist, and InvalidParameterValue for a directory."""
        found = self._existing(path)
        if found.is_dir():
            raise InvalidParameterValue(f"Path ({path}) is a directory.")
        return found.read_bytes(), found.suffix.removeprefix(".")

    def below(self, path: str) -> list[tuple[dict[str, Any], Path]] | None:
        """The objects below a directory that are no directories, each with its file; None for what is no directory.

        Raises ResourceDoesNotExist.
        """
        found = self._existing(path)
        if not found.is_dir():
            return None
        files = [file for file in sorted(found.rglob("*")) if file.is_file() and is_inside(file, self.root)]
        return [(self._info(file), file) for file in files]

    def write_notebook(self, path: str, content: bytes, overwrite: bool) -> None:
        """A Python notebook; the header is put before it where it lacks it, as an export on Databricks has it."""
        source = content if is_notebook(content) else HEADER + b"\n" + content
        self._write(path, self._location(path, ".py"), source, overwrite)

    def write_file(self, path: str, content: bytes, overwrite: bool) -> None:
        self._write(path, self._location(path), content, overwrite)

    def write_auto(self, path: str, content: bytes, overwrite: bool) -> None:
        """A notebook, without its extension, where source code has the header; else a file (ImportFormat.AUTO)."""
        suffix = PurePosixPath(path).suffix
        if suffix in _LANGUAGES and is_notebook(content, _LANGUAGES[suffix][1]):
            self._write(path.removesuffix(suffix), self._location(path), content, overwrite)
        else:
            self.write_file(path, content, overwrite)

    def make_directories(self, path: str) -> None:
        """Raises ResourceAlreadyExists where an object is in the way, there or above; a notebook too."""
        above = _plain(path)
        while above != "/":
            found = any(_is_notebook_file(self._location(above, suffix)) for suffix in _LANGUAGES)
            if found and not self._location(above).is_dir():
                raise ResourceAlreadyExists(f"Path ({path}) or one above it is a notebook.")
            above = str(PurePosixPath(above).parent)
        try:
            self._location(path).mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ResourceAlreadyExists(f"Path ({path}) or one above it is not a directory.") from None

    def delete(self, path: str, recursive: bool) -> None:
        """Raises ResourceDoesNotExist, DirectoryNotEmpty."""
        found = self._existing(path)
        if not found.is_dir() or found.is_symlink():
            found.unlink()
        elif found == self.root or (not recursive and any(found.iterdir())):
            raise DirectoryNotEmpty(f"Folder ({path}) is not empty")
        else:
            shutil.rmtree(found)

    def _write(self, path: str, target: Path, content: bytes, overwrite: bool) -> None:
        if len(content) > LARGEST_IMPORT_BYTES:
            raise NotebookTooLarge(f"The content of {path} is over {LARGEST_IMPORT_BYTES // 2**20} MB")
        if not target.parent.is_dir():
            raise ResourceDoesNotExist(f"The parent folder ({PurePosixPath(path).parent}) does not exist.")
        if target.is_dir() or self._location(_plain(path)).is_dir() or (target.exists() and not overwrite):
            raise ResourceAlreadyExists(f"Path ({path}) already exists.")
        replaced = self._replaced(path, target, content, overwrite)
        drafts = self.root.with_name("imports")
        drafts.mkdir(exist_ok=True)
        draft = drafts / str(uuid.uuid4())
        draft.write_bytes(content)
        os.replace(draft, target)
        for other in replaced:
            other.unlink(missing_ok=True)

    def _replaced(self, path: str, target: Path, content: bytes, overwrite: bool) -> list[Path]:
        """Notebooks of other languages at the path that the new object has. Raises ResourceAlreadyExists.

        A notebook replaces one of another language where it may overwrite, a file never.
        """
        as_notebook = target.suffix in _LANGUAGES and is_notebook(content, _LANGUAGES[target.suffix][1])
        file = "/" + target.relative_to(self.root).as_posix()
        name = file.removesuffix(target.suffix) if as_notebook else file
        others = [self._location(name, suffix) for suffix in _LANGUAGES]
        others = [other for other in others if other != target and _is_notebook_file(other)]
        plain = self._location(name)
        if as_notebook and plain.is_file() and not _is_notebook_file(plain):
            raise ResourceAlreadyExists(f"Path ({path}) already exists as a file.")
        if others and not (as_notebook and overwrite):
            raise ResourceAlreadyExists(f"Path ({path}) already exists as a notebook.")
        return others

    def _existing(self, path: str) -> Path:
        for candidate in self._candidates(path):
            if candidate.is_dir() or (candidate.is_file() and self._path_of(candidate) == _plain(path)):
                return candidate
        raise ResourceDoesNotExist(f"Path ({path}) doesn't exist.")

    def _candidates(self, path: str) -> Iterator[Path]:
        location = self._location(path)
        yield location
        if location != self.root:
            yield from (self._location(path, suffix) for suffix in _LANGUAGES)

    def _location(self, path: str, suffix: str = "") -> Path:
        parts = PurePosixPath(_plain(path) + suffix).parts[1:]
        try:
            return checked(self.root, *parts)
        except LeadsOutside as error:
            raise ResourceDoesNotExist(f"Path ({path}) doesn't exist: {error}.") from None

    def _path_of(self, file: Path) -> str:
        path = "/" + file.relative_to(self.root).as_posix()
        return path.removesuffix(file.suffix) if _is_notebook_file(file) else path

    def _info(self, file: Path) -> dict[str, Any]:
        path = "/" + file.relative_to(self.root).as_posix() if file != self.root else "/"
        number = self.number(path)
        info: dict[str, Any] = {"path": path, "object_id": number, "resource_id": str(number)}
        if file.is_dir():
            is_repo = (self.repos / f"{number}.json").exists()
            return {**info, "object_type": "REPO" if is_repo else "DIRECTORY"}
        if _is_notebook_file(file):
            language, _ = _LANGUAGES[file.suffix]
            return {**info, "path": path.removesuffix(file.suffix), "object_type": "NOTEBOOK", "language": language}
        known = file.stat()
        modified = round(known.st_mtime * 1000)
        return {**info, "object_type": "FILE", "size": known.st_size, "created_at": modified, "modified_at": modified}


def is_notebook(content: bytes, header: bytes = HEADER) -> bool:
    return content.lstrip(b"\xef\xbb\xbf").startswith(header)


def _is_notebook_file(file: Path) -> bool:
    if file.suffix not in _LANGUAGES or not file.is_file():
        return False
    _, header = _LANGUAGES[file.suffix]
    with file.open("rb") as start:
        return is_notebook(start.read(len(header) + 3), header)


def _plain(path: str) -> str:
    """The path without `/Workspace` and a trailing slash. Raises InvalidParameterValue for one that is not absolute."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] != "/" or ".." in parts or "\0" in path:
        raise InvalidParameterValue(f"Path ({path}) doesn't start with '/', or goes up")
    if len(parts) > DEEPEST_PATH:
        raise InvalidParameterValue(
            f"A path of the local workspace has at most {DEEPEST_PATH} parts, not {len(parts)}."
        )
    names = parts[2:] if len(parts) > 1 and parts[1] == "Workspace" else parts[1:]
    return "/" + "/".join(names)
