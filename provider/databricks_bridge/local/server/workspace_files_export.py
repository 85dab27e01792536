"""What workspace/export gives: one object as it is, or all of a directory as a zip archive."""

from __future__ import annotations

import io
import zipfile
from pathlib import PurePosixPath

from databricks_bridge.local.server import workspace_files_jupyter as jupyter
from databricks_bridge.local.server.errors import FeatureDisabled, InvalidParameterValue
from databricks_bridge.local.server.workspace_files_tree import (
    LARGEST_IMPORT_BYTES,
    NotebookTooLarge,
    Tree,
    is_notebook,
)

_OF_A_DIRECTORY = ("SOURCE", "AUTO")


def exported(tree: Tree, path: str, form: str) -> tuple[bytes, str]:
    """Content and extension. `form` is an ExportFormat: a directory's SOURCE is its notebooks, AUTO its files too.

    Raises ResourceDoesNotExist, NotebookTooLarge for what is over 10 MB, FeatureDisabled for a format that is not here.
    """
    if form not in (*_OF_A_DIRECTORY, "RAW", "JUPYTER"):
        raise FeatureDisabled(f"Export format {form} is not supported by the local workspace.")
    if tree.below(path) is None:
        content, extension = tree.read(path)
        if form == "JUPYTER":
            if not is_notebook(content):
                raise InvalidParameterValue(f"Path ({path}) is no notebook.")
            content, extension = jupyter.notebook_of(content), jupyter.SUFFIX.removeprefix(".")
    elif form in _OF_A_DIRECTORY:
        content, extension = _zipped(tree, path, with_files=form == "AUTO"), "zip"
    else:
        raise InvalidParameterValue(f"Path ({path}) is a directory; export it as {' or '.join(_OF_A_DIRECTORY)}.")
    if len(content) > LARGEST_IMPORT_BYTES:
        raise NotebookTooLarge(f"The export of {path} is over {LARGEST_IMPORT_BYTES // 2**20} MB")
    return content, extension


def _zipped(tree: Tree, path: str, *, with_files: bool) -> bytes:
    """Names in the archive begin with the directory's own; notebooks have their extension."""
    top = tree.plain(path)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as entries:
        for info, file in tree.below(path) or ():
            if with_files or info["object_type"] == "NOTEBOOK":
                inside = PurePosixPath(info["path"]).relative_to(top).with_name(file.name)
                entries.writestr(str(PurePosixPath(top).name / inside), file.read_bytes())
    return archive.getvalue()
