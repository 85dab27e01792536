"""One target of a bundle: its files as one configuration, its overrides on top, its variables and references replaced."""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.local.bundle.merging import merged
from databricks_bridge.local.bundle.references import at, resolved
from databricks_bridge.local.bundle.values import Value, placed, read_values
from databricks_bridge.local.marked_yaml import FileError
from databricks_bridge.local.refusals import Area, words

USER = "local-workspace"
"""Who deploys, as the local workspaces call their one user."""
SHORT_NAME = re.sub(r"[^\w]", "_", USER)
_OVERRIDES = ("bundle", "workspace", "resources", "sync", "permissions", "presets")
_REFUSED = ("artifacts", "python", "experimental", "scripts", "git", "cluster_id", "compute_id", "environments")
_FOLLOWED = {*_OVERRIDES, "include", "run_as", "targets", "variables"}
_OF_A_TARGET = {*_OVERRIDES, "run_as", "variables", "mode", "default"}
_GLOB = re.compile(r"[*?\[]")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    """The configuration of one target, wholly merged and resolved but for `${resources...}`."""

    name: str
    root: Value
    lookup: Any

    @property
    def files_root(self) -> str:
        """The workspace's folder for the files of the bundle."""
        found = self.root.get("workspace", "file_path")
        assert found is not None, "it is always set"
        return str(found.data)

    @property
    def mode(self) -> str:
        found = self.root.get("bundle", "mode")
        return "" if found is None else str(found.data)


def read_target(
    file: Path, name: str, variables: Mapping[str, Any], wrong: Callable[[str], FileError] = FileError
) -> Target:
    """The configuration that `databricks bundle deploy -t NAME` works with.

    :param variables: values that go before those of the bundle.
    :param wrong: makes the error for a target that is not there.
    :raises FileError: for what cannot be, and for what only the CLI can do, by file, line and key.
    """
    root = _included(read_values(file))
    root = _checked(root, _FOLLOWED)
    targets = root.get("targets")
    known = dict(targets.fields()) if targets is not None else {"default": root.like({})}
    if name not in known:
        raise wrong(f"{file} has no target {name!r}; it has {', '.join(sorted(known)) or 'none'}")
    target = _checked(known[name], _OF_A_TARGET)
    root = _overridden(root, target, variables)
    root = _with_workspace(root, name)

    def lookup(where: Value, reference: str) -> Value | None:
        if reference.startswith("resources."):
            return None
        return _looked_up(root, where, reference)

    whole = root.like({key: value for key, value in root.fields().items() if key not in ("targets", "variables")})
    return Target(name, resolved(whole, lookup), lookup)


def _included(root: Value) -> Value:
    folder = root.file.parent
    for pattern in (root.get("include") or root.like(None)).items():
        text = pattern.text()
        if Path(text).is_absolute():
            raise pattern.error(f"{text} is absolute; write it from the folder of the bundle")
        found = sorted(path for path in folder.glob(text) if path.is_file())
        if not found and not _GLOB.search(text):
            raise pattern.error(f"{text} is no file of {folder}")
        for path in found:
            if path.suffix not in (".yml", ".yaml"):
                raise pattern.error(f"{path.relative_to(folder)} is no YAML file")
            if path == root.file:
                continue
            part = read_values(path)
            if part.get("include") is not None:
                raise part.fields()["include"].error("an included file cannot include; write it in databricks.yml")
            _no_resource_twice(root, part)
            root = merged(root, part)
    return root


def _no_resource_twice(root: Value, part: Value) -> None:
    for kind, entries in (part.get("resources") or part.like({})).fields().items():
        for key, entry in entries.fields().items():
            other = root.get("resources", kind, key)
            if other is not None:
                raise entry.error(f"is there already, in {other.file}:{other.line}")


def _checked(value: Value, followed: set[str]) -> Value:
    """What of it is followed. A key that the CLI does not know is left out with a warning, as the CLI does it.

    Such a key often holds what other places refer to by an anchor, so nothing in it has to be complete.
    """
    kept = {}
    for key, entry in value.fields().items():
        if key in _REFUSED:
            if any(inner.data not in (None, "", []) for inner in _meaningful(key, entry)):
                raise entry.error(words(Area.BUNDLE, key))
        elif key in followed:
            kept[key] = entry
        else:
            log.warning("%s:%s: %s is no key of a bundle and is left out", entry.file, entry.line, key)
    return value.like(kept)


def _meaningful(key: str, entry: Value) -> list[Value]:
    """What of a refused key changes what is deployed: a virtual environment alone does not."""
    if key == "python":
        return [inner for name, inner in entry.fields().items() if name != "venv_path"]
    return [entry]


def _overridden(root: Value, target: Value, variables: Mapping[str, Any]) -> Value:
    fields = dict(root.fields())
    for name in _OVERRIDES:
        if (over := target.get(name)) is not None:
            fields[name] = merged(fields[name], over) if name in fields else over
    for name in ("run_as",):
        if (over := target.get(name)) is not None:
            fields[name] = over
    if (mode := target.get("mode")) is not None:
        if mode.data not in ("development", "production"):
            raise mode.error(f"is {mode.data!r}; use development or production")
        base = fields.get("bundle", root.like({}))
        fields["bundle"] = base.like({**base.fields(), "mode": mode})
    fields["variables"] = _variables(root, target, variables)
    return root.like(fields)


def _variables(root: Value, target: Value, given: Mapping[str, Any]) -> Value:
    declared = dict((root.get("variables") or root.like({})).fields())
    values: dict[str, Value] = {}
    for name, entry in declared.items():
        values[name] = entry.like({"declared": entry.like(True), **entry.fields()})
    for name, over in (target.get("variables") or target.like({})).fields().items():
        base = values.get(name)
        full = isinstance(over.data, dict) and ({"default", "lookup", "description", "type"} & over.data.keys())
        if base is None and not full:
            raise over.error(f"sets the variable {name!r}, which the bundle does not declare")
        said = over.fields() if full else {"default": over}
        values[name] = over.like({**(base.fields() if base is not None else {}), **said})
        if "default" in said and "lookup" not in said:
            values[name] = values[name].like({k: v for k, v in values[name].fields().items() if k != "lookup"})
    for name, plain in given.items():
        if name not in values:
            raise root.error(f"the variable {name!r} is given, and the bundle does not declare it")
        kept = {k: v for k, v in values[name].fields().items() if k != "lookup"}
        values[name] = values[name].like({**kept, "default": placed(values[name], plain)})
    return (root.get("variables") or root).like(values)


def _with_workspace(root: Value, target: str) -> Value:
    bundle = root.get("bundle")
    name = root.get("bundle", "name")
    if bundle is None or name is None:
        raise (bundle or root).error("bundle.name is missing")
    given = root.get("workspace")
    place = given or bundle
    fields = dict(place.fields()) if given is not None else {}
    user = {"userName": USER, "short_name": SHORT_NAME, "domain_friendly_name": USER, "displayName": USER}
    fields["current_user"] = placed(place, user)
    base = fields.get("root_path")
    written = str(base.data) if base is not None and base.data else "~/.bundle/${bundle.name}/${bundle.target}"
    if written.startswith("~/") or written == "~":
        written = f"/Workspace/Users/{USER}{written[1:]}"
    elif re.match(r"/(Users|Shared|Repos)/", written):
        written = f"/Workspace{written}"
    fields["root_path"] = (base or place).like(written)
    for key, folder in (
        ("file_path", "files"),
        ("artifact_path", "artifacts"),
        ("state_path", "state"),
        ("resource_path", "resources"),
    ):
        if key not in fields or fields[key].data is None:
            fields[key] = place.like("${workspace.root_path}/" + folder)
    described = {**bundle.fields(), "target": bundle.like(target), "environment": bundle.like(target)}
    return root.like({**root.fields(), "workspace": place.like(fields), "bundle": bundle.like(described)})


def _looked_up(root: Value, where: Value, reference: str) -> Value:
    head, _, rest = reference.partition(".")
    if head in ("var", "variables"):
        name, _, inside = rest.partition(".")
        if head == "variables":
            inside = inside.removeprefix("value").removeprefix(".")
        return _variable(root, where, name, inside)
    if reference == "workspace.host" or reference.startswith("bundle.git."):
        raise where.error(f"uses ${{{reference}}}, which is not known before the local workspace runs; write the value")
    found = at(root, reference)
    if found is None or found.data is None:
        raise where.error(f"uses ${{{reference}}}, which is nowhere in the bundle")
    return found


def _variable(root: Value, where: Value, name: str, inside: str) -> Value:
    variable = root.get("variables", name)
    if variable is None:
        raise where.error(f"uses ${{var.{name}}}, and the bundle declares no such variable")
    if variable.get("lookup") is not None:
        raise variable.fields()["lookup"].error(words(Area.BUNDLE, "variables.lookup"))
    found = variable.fields().get("default")
    if found is None or found.data is None:
        raise variable.error(
            f"has no value for this target; give it a default, or variables: {{{name}: ...}} beside the target in the lab file"
        )
    within = at(found, inside) if inside else found
    if within is None:
        raise where.error(f"uses ${{var.{name}.{inside}}}, which the variable does not have")
    return within


def joined(root: str, path: str) -> str:
    """A path of the workspace below `root`."""
    return posixpath.normpath(posixpath.join(root, path))
