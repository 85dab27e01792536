"""What is in a workspace, so that examples can name it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from databricks_bridge.local.ports import Workspace
from databricks_bridge.local.runs.model import Outcome, Phase, Run
from databricks_bridge.local.runs.records import RunFilter, attempts_of, list_runs
from databricks_bridge.local.server import unity_catalog_names as names
from databricks_bridge.local.server.unity_catalog_tables import tables
from databricks_bridge.local.server.warehouses import warehouse_id
from databricks_bridge.local.server.workspace_files_tree import Tree
from databricks_bridge.local.shares import Share
from databricks_bridge.local.triggers.commits import table_exists, table_id

LOOKED_AT = 200
"""So many of the newest runs are looked through for one of each kind."""
_GOOD = (Outcome.SUCCESS, Outcome.SUCCESS_WITH_FAILURES)


@dataclass(frozen=True)
class Known:
    """Names and ids that exist; None where there is no such thing."""

    host: str
    metastore: str
    metastore_id: str
    user: str
    client_id: str
    warehouse: str
    job: int | None
    workspace_id: str
    ended_run: int | None
    failed_run: int | None
    task_run: int | None
    hold: int | None
    fault: int | None
    policy: int | None
    catalog: str | None
    schema: str | None
    table: str | None
    table_id: str | None
    volume: str | None
    volume_id: str | None
    volume_url: str | None
    file: str | None
    notebook: str | None
    share: str | None
    recipient: str | None
    given_table: str | None
    """`schema.table` of the share."""
    shared: str | None
    repo: int | None

    @property
    def folder(self) -> str | None:
        """The path of the volume, without a slash before it."""
        return None if self.volume is None else f"Volumes/{self.volume.replace('.', '/')}"

    @property
    def volume_schema(self) -> str | None:
        """The schema that has the volume."""
        return None if self.volume is None else self.volume.rpartition(".")[0]


def known_in(workspace: Workspace) -> Known:
    """The newest of everything, the first by name of what has no time."""
    store, name = workspace.store, workspace.name
    runs = [run for run in list_runs(store, name, RunFilter(), None, LOOKED_AT) if run.phase is Phase.DONE]
    failed = [run for run in runs if run.outcome not in (*_GOOD, Outcome.NO_SLOT)]
    ran = next((attempts for run in runs if (attempts := attempts_of(store, run.run_id))), None)
    own = (table for table in tables(workspace) if workspace.shares.find(workspace.metastore, table.parts[-3]) is None)
    table = next(own, None)
    volume = _first_volume(workspace)
    read, given = workspace.shares.of(workspace.metastore), workspace.shares.given_by(workspace.metastore)
    first = next((readers[0] for readers in given.values()), None)
    holds, faults = workspace.runs.holds.of(name), workspace.faults.of(name)
    jobs = store.jobs(name)
    return Known(
        host=workspace.host,
        metastore=workspace.metastore,
        metastore_id=workspace.metastore_id,
        user=workspace.user_name,
        client_id=workspace.credentials.client_id,
        warehouse=warehouse_id(workspace),
        job=jobs[0].job_id if jobs else None,
        workspace_id=workspace.workspace_id,
        ended_run=_newest(runs),
        failed_run=_newest(failed),
        task_run=ran[0].run_id if ran else None,
        hold=max((hold.hold_id for hold in holds), default=None),
        fault=max((fault.fault_id for fault in faults), default=None),
        policy=store.query("SELECT max(policy_id) AS newest FROM federation_policies WHERE workspace = ?", (name,))[0][
            "newest"
        ],
        catalog=None if table is None else table.parts[-3],
        schema=None if table is None else ".".join(table.parts[-3:-1]),
        table=None if table is None else ".".join(table.parts[-3:]),
        table_id=None if table is None else table_id(table),
        volume=None if volume is None else ".".join(volume.parts[-3:]),
        volume_id=None if volume is None else names.card(volume, names.volume_card(volume))["id"],
        volume_url=None if volume is None else volume.absolute().as_uri(),
        file=None if volume is None else _first_file(volume),
        notebook=_first_notebook(workspace),
        share=first.catalog if first else None,
        recipient=first.metastore if first else None,
        given_table=_first_table(workspace, first) if first else None,
        shared=read[0].catalog if read else None,
        repo=_first_repo(workspace),
    )


def _newest(runs: list[Run]) -> int | None:
    return runs[0].run_id if runs else None


def _first_volume(workspace: Workspace) -> Path | None:
    root = workspace.layout.volumes_root(workspace.metastore)
    found = (
        volume
        for catalog in names.children(root)
        for schema in names.children(catalog)
        for volume in names.children(schema)
    )
    return next(found, None)


def _first_table(workspace: Workspace, share: Share) -> str | None:
    """`schema.table` of a table that the reader of the share has."""
    catalog = workspace.layout.metastore_root(share.metastore) / share.catalog
    found = (table for schema in names.children(catalog) for table in names.children(schema) if table_exists(table))
    return next((".".join(table.parts[-2:]) for table in found), None)


def _first_file(volume: Path) -> str | None:
    """The path of a file at the top of the volume, without a slash before it."""
    found = sorted(file for file in volume.iterdir() if file.is_file() and not file.name.startswith("."))
    return "/".join(("Volumes", *found[0].parts[-4:])) if found else None


def _first_repo(workspace: Workspace) -> int | None:
    cards = Tree(workspace.layout.workspace_files(workspace.name)).repos.glob("*.json")
    return min((int(card.stem) for card in cards), default=None)


def _first_notebook(workspace: Workspace) -> str | None:
    root = workspace.layout.workspace_files(workspace.name)
    found = sorted(root.rglob("*.py"))
    return "/" + found[0].relative_to(root).with_suffix("").as_posix() if found else None
