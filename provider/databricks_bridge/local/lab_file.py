"""The file of a local deployment (`local up --file lab.yaml`): what it hosts, and what is in it from the start.

    home: ./lab                          # keeps everything; unless given, .NAME beside the file
    time_scale: 0.05                     # factor on Databricks' own timers; 1 unless given
    tls: true                            # https, with a certificate authority that the home keeps; http unless given
    workspaces:
      ops:
        metastore: ops                   # its own unless given
        port: 18081                      # any free one unless given
        address: 127.0.0.1               # of the loopback; this one unless given
        catalogs:
          main:
            landing: [flights]           # schema: its volumes
            silver:
        notebooks:
          /Shared/bronze: notebooks/bronze.py
        jobs:                            # as jobs/create takes them
          - name: bronze
            tasks: [...]
        bundle: {file: databricks.yml, target: ops, first: [create_tables]}
        shares:
          met_share: {metastore: met, catalog: main, schemas: [silver], lag: none, history: true}
        files:
          /Volumes/main/landing/flights/: seed/*.json
    waves:                               # `local wave` lands the next one
      - ops:
          /Volumes/main/landing/flights/: wave-1/*.json

Paths are from the folder of the file. Nothing here is done when the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.local.lab_bundle import Bundle, read_bundle
from databricks_bridge.local.marked_yaml import Entry, read_marked
from databricks_bridge.local.shares import LAGS
from databricks_bridge.local.workspace_spec import ADDRESS, WorkspaceSpec

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_IDENTIFIER = re.compile(r"[a-z0-9_][a-z0-9_-]*")
_WORKSPACE = ("metastore", "port", "address", "catalogs", "notebooks", "jobs", "bundle", "shares", "files")
_SHARE = ("metastore", "catalog", "schemas", "lag", "history")


@dataclass(frozen=True)
class Arrival:
    """Files for a folder of a volume, `/Volumes/catalog/schema/volume/...`, sorted by name."""

    folder: str
    files: tuple[Path, ...]


@dataclass(frozen=True)
class LabWorkspace:
    """What one workspace holds. `volumes` are three-part names, `shares` the bodies of `/local/shares`."""

    spec: WorkspaceSpec
    catalogs: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    notebooks: Mapping[str, Path] | None = None
    jobs: tuple[dict[str, Any], ...] = ()
    bundle: Bundle | None = None
    shares: tuple[dict[str, Any], ...] = ()
    files: tuple[Arrival, ...] = ()


@dataclass(frozen=True)
class Lab:
    """The whole file. A wave is workspace to arrivals."""

    file: Path
    home: Path
    time_scale: float
    workspaces: tuple[LabWorkspace, ...]
    waves: tuple[Mapping[str, tuple[Arrival, ...]], ...]
    tls: bool = False


def read_lab(file: Path) -> Lab:
    """The lab that a file describes. Raises FileError, which names the line and the key."""
    file = file.absolute()
    top = read_marked(file)
    fields = top.fields(("home", "time_scale", "tls", "workspaces", "waves"))
    if "workspaces" not in fields or not fields["workspaces"].fields():
        raise top.error("workspaces is missing: name at least one")
    described = fields["workspaces"].fields()
    workspaces = tuple(_workspace(name, entry) for name, entry in described.items())
    metastores = {one.spec.metastore or one.spec.name for one in workspaces}
    for one in workspaces:
        for share in one.shares:
            if share["source_metastore"] not in metastores:
                key = described[one.spec.name].fields()["shares"].fields()[share["catalog"]].fields()["metastore"]
                raise key.error(f"no workspace has the metastore {share['source_metastore']!r}")
    home = fields["home"].text() if "home" in fields else f".{file.stem}"
    scale = fields["time_scale"].number(0.001, 1) if "time_scale" in fields else 1.0
    tls = fields["tls"].truth() if "tls" in fields else False
    waves = fields["waves"].items() if "waves" in fields else []
    return Lab(file, file.parent / home, scale, workspaces, tuple(_wave(entry, described) for entry in waves), tls)


def _workspace(name: str, entry: Entry) -> LabWorkspace:
    _named(entry, name, NAME, "workspace")
    fields = entry.fields(_WORKSPACE)
    metastore = (
        _named(fields["metastore"], fields["metastore"].text(), NAME, "metastore") if "metastore" in fields else None
    )
    port = int(fields["port"].number(0, 65535)) if "port" in fields else 0
    address = fields["address"].text() if "address" in fields else ADDRESS
    catalogs, schemas, volumes = _catalogs(fields["catalogs"]) if "catalogs" in fields else ((), (), ())
    notebooks = fields["notebooks"].fields() if "notebooks" in fields else {}
    return LabWorkspace(
        WorkspaceSpec(name, metastore, port, address),
        catalogs,
        schemas,
        volumes,
        {_absolute(one, path): _one_file(one) for path, one in notebooks.items()},
        tuple(_job(one) for one in fields["jobs"].items()) if "jobs" in fields else (),
        read_bundle(fields["bundle"]) if "bundle" in fields else None,
        tuple(_share(catalog, one, metastore or name) for catalog, one in fields["shares"].fields().items())
        if "shares" in fields
        else (),
        _arrivals(fields["files"]) if "files" in fields else (),
    )


def _catalogs(entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    catalogs, schemas, volumes = [], [], []
    for catalog, inside in entry.fields().items():
        catalogs.append(_named(inside, catalog, _IDENTIFIER, "catalog"))
        for schema, held in inside.fields().items():
            schemas.append(f"{catalog}.{_named(held, schema, _IDENTIFIER, 'schema')}")
            named = [_named(item, item.text(), _IDENTIFIER, "volume") for item in held.items()]
            volumes += [f"{schemas[-1]}.{name}" for name in named]
    return tuple(catalogs), tuple(schemas), tuple(volumes)


def _job(entry: Entry) -> dict[str, Any]:
    fields = entry.fields()
    for key in ("name", "tasks"):
        if key not in fields:
            raise entry.error(f"{key} is missing; a job is what jobs/create takes, with a name and tasks")
    fields["name"].text()
    return dict(entry.value())


def _share(catalog: str, entry: Entry, reader: str) -> dict[str, Any]:
    fields = entry.fields(_SHARE)
    for key in ("metastore", "schemas"):
        if key not in fields:
            raise entry.error(f"{key} is missing")
    source = fields["metastore"].text()
    if source == reader:
        raise fields["metastore"].error("is the workspace's own metastore; a share comes from another")
    lag = fields["lag"].text() if "lag" in fields else "none"
    if lag not in LAGS:
        raise fields["lag"].error(f"is {lag!r}; use {' or '.join(LAGS)}")
    return {
        "catalog": _named(entry, catalog, _IDENTIFIER, "catalog"),
        "source_metastore": source,
        "source_catalog": fields["catalog"].text() if "catalog" in fields else "main",
        "schemas": [one.text() for one in fields["schemas"].items()],
        "lag": lag,
        "history": fields["history"].truth() if "history" in fields else True,
    }


def _wave(entry: Entry, workspaces: Mapping[str, Entry]) -> Mapping[str, tuple[Arrival, ...]]:
    return {name: _arrivals(one) for name, one in entry.fields(workspaces).items()}


def _arrivals(entry: Entry) -> tuple[Arrival, ...]:
    return tuple(_arrival(folder, one) for folder, one in entry.fields().items())


def _arrival(folder: str, entry: Entry) -> Arrival:
    if not folder.startswith("/Volumes/") or len(folder.strip("/").split("/")) < 4:
        raise entry.error("is not a folder of a volume; write /Volumes/catalog/schema/volume/")
    files: set[Path] = set()
    for item in entry.items():
        found = [path for path in entry.file.parent.glob(_relative(item)) if path.is_file()]
        if not found:
            raise item.error(f"{item.text()} is no file of {entry.file.parent}")
        files.update(found)
    return Arrival(folder.rstrip("/"), tuple(sorted(files, key=lambda path: path.name)))


def _one_file(entry: Entry) -> Path:
    file = entry.file.parent / entry.text()
    if not file.is_file():
        raise entry.error(f"{entry.text()} is no file of {entry.file.parent}")
    return file


def _relative(entry: Entry) -> str:
    text = entry.text()
    if Path(text).is_absolute():
        raise entry.error(f"{text} is absolute; write it from the folder of the file")
    return text


def _absolute(entry: Entry, path: str) -> str:
    if not path.startswith("/"):
        raise entry.error("is no path of the workspace; it begins with /")
    return path


def _named(entry: Entry, name: str, shape: re.Pattern[str], kind: str) -> str:
    if not shape.fullmatch(name):
        raise entry.error(f"{kind} name {name!r} may hold lower-case letters, digits, '-' and '_' only")
    return name
