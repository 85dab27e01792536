"""The bundle of a workspace of the lab file: one target of a Databricks Asset Bundle, as `bundle deploy` would put it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from databricks_bridge.local.bundle.merging import job_merged
from databricks_bridge.local.bundle.presets import applied, prefixed_identifier, presets_of
from databricks_bridge.local.bundle.references import JOB_ID, REFERENCE, at, in_order, resolved
from databricks_bridge.local.bundle.targets import USER, Target, joined, read_target
from databricks_bridge.local.bundle.values import Value, walk
from databricks_bridge.local.marked_yaml import Entry
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.refusals.bundle import KINDS

Json = dict[str, Any]
_SERVED = ("catalogs", "schemas", "volumes", "jobs")
_LEVELS = {"CAN_RUN": "CAN_MANAGE_RUN"}
"""What a level of the whole bundle is for a job, where it is not called the same."""
_SUFFIXES = (".py", ".ipynb", ".sql", ".r", ".scala")


@dataclass(frozen=True)
class Bundle:
    """`jobs` by their key, each after those whose ids it names as `${resources.jobs.KEY.id}`.

    `notebooks` and `files` are paths of the workspace to files of the bundle, `first` the keys of jobs that are run to their
    end before the others are made. `catalogs`, `schemas` and `volumes` are what Unity Catalog is sent to make them;
    `permissions` the access control lists of jobs by key; `grants` are (kind, full name, what is changed).
    """

    jobs: Mapping[str, Json]
    notebooks: Mapping[str, Path]
    first: tuple[str, ...]
    files: Mapping[str, Path] = field(default_factory=dict)
    catalogs: tuple[Json, ...] = ()
    schemas: tuple[Json, ...] = ()
    volumes: tuple[Json, ...] = ()
    permissions: Mapping[str, list[Json]] = field(default_factory=dict)
    grants: tuple[tuple[str, str, list[Json]], ...] = ()


def read_bundle(entry: Entry) -> Bundle:
    """What `{file:, target:, first:, variables:}` names. Raises FileError, also for what only the CLI can deploy."""
    fields = entry.fields(("file", "target", "first", "variables"))
    for key in ("file", "target"):
        if key not in fields:
            raise entry.error(f"{key} is missing")
    file = entry.file.parent / fields["file"].text()
    given = {name: one.value() for name, one in fields["variables"].fields().items()} if "variables" in fields else {}
    target = read_target(file, fields["target"].text(), given, fields["target"].error)
    first = tuple(item.text() for item in fields["first"].items()) if "first" in fields else ()
    bundle = _deployed(target, first)
    for key in first:
        if key not in bundle.jobs:
            raise fields["first"].error(f"{file} has no job {key!r} for this target; it has {', '.join(bundle.jobs)}")
    return bundle


def _deployed(target: Target, first: tuple[str, ...]) -> Bundle:
    resources = target.root.get("resources") or target.root.like({})
    for kind, entries in resources.fields().items():
        if kind in KINDS and entries.fields():
            raise next(iter(entries.fields().values())).error(words(Area.BUNDLE, f"resources.{kind}"))
        if kind not in _SERVED and kind not in KINDS:
            raise entries.error(f"is not a kind of resource here; use {', '.join(_SERVED)}")
    if (sync := target.root.get("sync", "paths")) is not None:
        raise sync.error(words(Area.BUNDLE, "sync.paths"))
    presets = presets_of(target)
    _check_run_as(target.root.get("run_as"))
    named = _named(resources, presets)

    def lookup(where: Value, reference: str) -> Value | None:
        if not reference.startswith("resources.") or JOB_ID.fullmatch(f"${{{reference}}}"):
            return None
        found = at(named, reference.removeprefix("resources."))
        if found is None or found.data is None:
            raise where.error(f"uses ${{{reference}}}, which is known only where the Databricks CLI has deployed it")
        return found

    whole = resolved(named, lookup)
    jobs = in_order((whole.get("jobs") or whole.like({})).fields())
    notebooks: dict[str, Path] = {}
    files: dict[str, Path] = {}
    made = {key: _job(one, target, notebooks, files) for key, one in jobs.items()}
    top = [_for_jobs(one) for one in (target.root.get("permissions") or target.root.like([])).items()]
    permissions = {key: [*_own_permissions(one), *top] for key, one in jobs.items()}
    securables = {kind: (whole.get(kind) or whole.like({})).fields().values() for kind in _SERVED[:3]}
    return Bundle(
        made,
        notebooks,
        first,
        files,
        catalogs=tuple(_securable(one) for one in securables["catalogs"]),
        schemas=tuple(_securable(one) for one in securables["schemas"]),
        volumes=tuple(_securable(one) for one in securables["volumes"]),
        permissions={key: found for key, found in permissions.items() if found},
        grants=tuple(found for kind in _SERVED[:3] for one in securables[kind] for found in _grants(kind, one)),
    )


def _named(resources: Value, presets: Json) -> Value:
    """The resources as the presets make them, before one refers to another."""
    kinds = dict(resources.fields())
    if jobs := resources.get("jobs"):
        kinds["jobs"] = jobs.like({key: applied(job_merged(one), key, presets) for key, one in jobs.fields().items()})
    # As with the CLI, catalogs and volumes keep their names.
    for kind in ("schemas",):
        if found := resources.get(kind):
            kinds[kind] = found.like({key: _prefixed(one, presets) for key, one in found.fields().items()})
    return resources.like(kinds)


def _prefixed(securable: Value, presets: Json) -> Value:
    name = securable.get("name")
    if name is None:
        raise securable.error("name is missing")
    return securable.like({**securable.fields(), "name": name.like(prefixed_identifier(presets, name.text()))})


def _check_run_as(run_as: Value | None) -> None:
    for one in run_as.fields().values() if run_as is not None else ():
        if one.data not in (None, USER):
            raise one.error(words(Area.BUNDLE, "run_as"))


def _job(job: Value, target: Target, notebooks: dict[str, Path], files: dict[str, Path]) -> Json:
    _check_references(job)
    _check_run_as(job.get("run_as"))
    paths: dict[int, str] = {}
    for value in walk(job):
        _place_files(value, target, notebooks, files, paths)
    body = _plain(job, paths)
    body.pop("permissions", None)
    body.pop("lifecycle", None)
    return dict(body)


def _check_references(job: Value) -> None:
    for value in walk(job):
        if isinstance(value.data, str) and (found := REFERENCE.search(JOB_ID.sub("", value.data))):
            raise value.error(f"uses {found[0]}, which the lab file cannot resolve; write the value")


def _plain(value: Value, paths: Mapping[int, str]) -> Any:
    if id(value) in paths:
        return paths[id(value)]
    if isinstance(value.data, dict):
        return {name: _plain(inner, paths) for name, inner in value.data.items()}
    if isinstance(value.data, list):
        return [_plain(inner, paths) for inner in value.data]
    return value.data


def _place_files(
    value: Value, target: Target, notebooks: dict[str, Path], files: dict[str, Path], paths: dict[int, str]
) -> None:
    """Where the files that a task names will be; relative ones are from the file that names them."""
    if not isinstance(value.data, dict):
        return
    for library in (value.get("libraries") or value.like([])).items() if "task_key" in value.data else ():
        for kind in ("whl", "jar", "requirements"):
            if (named := library.get(kind)) is not None and not str(named.data).startswith(("/", "dbfs:", "s3:")):
                raise named.error(words(Area.BUNDLE, "libraries"))
    for dependency in (value.get("spec", "dependencies") or value.like([])).items():
        if str(dependency.data).startswith((".", "--editable", "-e ", "-r ")):
            raise dependency.error(words(Area.BUNDLE, "libraries"))
    for task, key in (("notebook_task", "notebook_path"), ("spark_python_task", "python_file")):
        named = value.get(task, key)
        if named is not None and value.get(task, "source") is None and not _is_absolute(str(named.data)):
            paths[id(named)] = _placed(named, target, notebooks if task == "notebook_task" else files)
    named = value.get("sql_task", "file", "path")
    if named is not None and value.get("sql_task", "file", "source") is None and not _is_absolute(str(named.data)):
        paths[id(named)] = _placed(named, target, files)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or ":/" in path or "{{" in path


def _placed(named: Value, target: Target, known: dict[str, Path]) -> str:
    base = target.root.file.parent.resolve()
    file = (named.file.parent / named.text()).resolve()
    if not file.is_file():
        raise named.error(f"{named.data} is no file of {named.file.parent}")
    if not file.is_relative_to(base):
        raise named.error(f"{named.data} is outside of the bundle, which is {base}")
    path = joined(target.files_root, file.relative_to(base).as_posix())
    if named.key.endswith("notebook_path"):
        if file.suffix.lower() not in _SUFFIXES:
            raise named.error(f"{named.data} is no notebook: it ends in none of {', '.join(_SUFFIXES)}")
        path = path[: -len(file.suffix)]
    known[path] = file
    return path


def _own_permissions(job: Value) -> list[Json]:
    return [dict(one.plain()) for one in (job.get("permissions") or job.like([])).items()]


def _for_jobs(permission: Value) -> Json:
    plain = dict(permission.plain())
    level = plain.get("level")
    if level not in ("CAN_MANAGE", "CAN_VIEW", "CAN_RUN"):
        raise permission.error(f"level is {level!r}; use CAN_MANAGE, CAN_VIEW or CAN_RUN")
    return {**plain, "level": _LEVELS.get(level, level)}


def _securable(value: Value) -> Json:
    _check_references(value)
    return {key: inner for key, inner in value.plain().items() if key not in ("grants", "lifecycle")}


def _grants(kind: str, value: Value) -> list[tuple[str, str, list[Json]]]:
    given = value.get("grants")
    if given is None:
        return []
    parts = [value.get(key) for key in ("catalog_name", "schema_name", "name")]
    name = ".".join(part.text() for part in parts if part is not None)
    changes = []
    for one in given.items():
        plain = one.plain()
        if not isinstance(plain, dict) or not plain.get("principal") or not isinstance(plain.get("privileges"), list):
            raise one.error("give a principal and its privileges")
        changes.append({"principal": plain["principal"], "add": plain["privileges"]})
    return [(kind.removesuffix("s"), name, changes)]
