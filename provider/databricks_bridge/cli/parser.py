"""The command line: its groups, words and options. No work, and no import of what does it."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter, _SubParsersAction
from typing import TYPE_CHECKING

from databricks_bridge.cli import local_faults

if TYPE_CHECKING:
    Commands = _SubParsersAction[ArgumentParser]

_PACKAGE = "databricks_bridge.cli"
_ENVIRONMENT = """\
environment:
  AIRFLOW__DATABRICKS_BRIDGE__LEDGER   the ledger, unless --ledger is given
  DATABRICKS_BRIDGE_AIRFLOW_URL        Airflow's base URL, for the ledger "airflow"
  DATABRICKS_BRIDGE_AIRFLOW_TOKEN      its token, or _USER and _PASSWORD (or _TOKEN_FILE, _PASSWORD_FILE)
  DATABRICKS_HOST, DATABRICKS_TOKEN    the workspace, unless --databricks-conn-id is given

exit codes: 0 done, 1 refused or failed, 2 a command line that cannot work, 3 a claim waits for a person,
4 not confirmed (nothing was written)"""

_SOURCES = """\
when the sources of a subscription change (marks are kept by alias):
  added      begins at its own start=, else at the subscription's; the others go on
  removed    is in no claim any more; its mark is kept
  back again goes on from its old mark, whatever its start= says; if the table was cut meanwhile, on_history_gap decides
  renamed    another alias is another source: watermark adopt NAME NEW_ALIAS --of OLD_ALIAS carries the mark over
  another kind of source under the same alias (a job where a table was) is refused: give it another alias=
an open claim keeps the sources that it was written with"""
_POSITION = 'a table version, "earliest", or a time (ISO 8601) for the runs of a job'
_RENAME = (
    "give a subscription another name; the old one keeps a tombstone, and a task that still uses it gets an error that "
    "names the new one. Refused while a claim is open"
)
_RETARGET = (
    "give a subscription another consumer: its job was made anew or is another one, or its DAG has another name. Watermarks "
    "stay. Refused while a claim is open"
)
_RETIRE = (
    "close a subscription for good: its record stays, tasks that use it get an error. Refused while a claim is open"
)


def parser() -> ArgumentParser:
    """The whole command line. A parsed one carries `command`, the dotted name of the function that does it."""
    top = ArgumentParser(
        prog="databricks-bridge",
        description="Records, claims and watermarks of subscriptions; local workspaces.",
        epilog=_ENVIRONMENT,
        formatter_class=RawDescriptionHelpFormatter,
    )
    groups = top.add_subparsers(title="groups", required=True, metavar="GROUP")
    _status(groups)
    _subscription(groups.add_parser("subscription", help="list, move, rename and retire subscriptions"))
    _watermark(
        groups.add_parser(
            "watermark",
            help="read and mend what was processed",
            epilog=_SOURCES,
            formatter_class=RawDescriptionHelpFormatter,
        )
    )
    _claim(groups.add_parser("claim", help="list open claims, resolve one"))
    local = groups.add_parser("local", help="a local workspace (a stand-in, not Databricks)")
    words = local.add_subparsers(required=True, metavar="COMMAND")
    for word, text in (
        ("up", "run it, in the foreground or with --detach"),
        ("down", "stop it"),
        ("status", "what runs, and where"),
        ("logs", "what a detached one says"),
        ("wave", "land the next wave of files"),
        ("links", "links that sign a browser in to its pages"),
        ("switch", "its switches, or set one"),
        ("test-trigger", "what a job's triggers would do now"),
        ("model-event", "say that something happened to a model"),
    ):
        words.add_parser(word, help=text)
    local_faults.add(words)
    return top


def _status(groups: Commands) -> None:
    command = _command(groups, "status", "status.status", "every subscription: consumer, watermarks, open claim")
    command.add_argument("subscription", nargs="?", help="this one alone")
    _expected(command)


def _subscription(group: ArgumentParser) -> None:
    words = group.add_subparsers(required=True, metavar="COMMAND")
    _command(words, "list", "subscriptions.listing", "the subscriptions that have a record")
    retarget = _command(words, "retarget", "retargeting.retarget", _RETARGET, writes=True)
    retarget.add_argument("subscription")
    target = retarget.add_mutually_exclusive_group(required=True)
    target.add_argument("--job-id", type=int)
    target.add_argument("--job-name", help="the exact name")
    target.add_argument("--dag-id", help="the DAG, for a subscription around external work")
    _workspace(retarget)
    move = _command(words, "move", "subscriptions.move", "move a record to another ledger", writes=True)
    move.add_argument("subscription")
    move.add_argument("--to", required=True, metavar="LEDGER", help="the new ledger's address")
    rename = _command(words, "rename", "subscriptions.rename", _RENAME, writes=True)
    rename.add_argument("subscription", metavar="OLD")
    rename.add_argument("new", metavar="NEW")
    retire = _command(words, "retire", "subscriptions.retire", _RETIRE, writes=True)
    retire.add_argument("subscription")
    retire.add_argument("--undo", action="store_true", help="take a retired subscription into use again")


def _watermark(group: ArgumentParser) -> None:
    words = group.add_subparsers(required=True, metavar="COMMAND")
    get = _command(words, "get", "watermarks.get", "the watermarks of a subscription")
    get.add_argument("subscription")
    get.add_argument("source", nargs="?", help="the alias of one source")
    history = _command(words, "history", "watermarks.history", "the last transitions of a record")
    history.add_argument("subscription")
    history.add_argument("-n", "--count", type=int, default=20, help="how many (default 20)")
    for word, text in (
        ("set", "skip forward to a position; what is between is never processed"),
        ("rewind", "process again from a position (exclusive) on"),
        ("adopt", "go on from a position of the table that has the name now (re-created, or history lost)"),
    ):
        place = _command(words, word, f"watermarks.{word}", text, writes=True)
        place.add_argument("subscription")
        place.add_argument("source", help="the alias of the source")
        if word == "adopt":
            where = place.add_mutually_exclusive_group(required=True)
            where.add_argument("--of", metavar="ALIAS", help="the mark of a source that had this alias before")
            where.add_argument("position", nargs="?", help=_POSITION)
            place.add_argument("--table-id", help="the table's id; unless given, whichever it has at the next claim")
            place.add_argument("--metadata-id", help="the metadata id, likewise")
        else:
            place.add_argument("position", help=_POSITION)
    rebuild = _command(words, "rebuild", "rebuilding.rebuild", "a lost record, from the runs of its job", writes=True)
    rebuild.add_argument("subscription")
    job = rebuild.add_mutually_exclusive_group(required=True)
    job.add_argument("--job-id", type=int)
    job.add_argument("--job-name", help="the exact name")
    job.add_argument(
        "--dag-id",
        help="the DAG around external work (claim, commit), from the second copy that its tasks keep in Airflow",
    )
    rebuild.add_argument(
        "--control-table",
        metavar="ADDRESS",
        help="compare with job_watermarks there (control-table:conn/warehouse/schema)",
    )
    rebuild.add_argument(
        "--checkpoint",
        action="append",
        default=[],
        metavar="SOURCE=URL",
        help="compare with a streaming checkpoint (s3://, gs://, abfss://, file:///); may be given again",
    )
    rebuild.add_argument(
        "--mark",
        action="append",
        default=[],
        metavar="SOURCE=VERSION",
        help="your own word on a source, over what the runs say; may be given again",
    )
    rebuild.add_argument(
        "--formerly",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that the subscription had before it was renamed: its runs count too; may be given again",
    )
    _workspace(rebuild)


def _claim(group: ArgumentParser) -> None:
    words = group.add_subparsers(required=True, metavar="COMMAND")
    _expected(_command(words, "list", "claims.listing", "all open claims"))
    resolve = _command(words, "resolve", "claims.resolve", "say what became of a claim's run", writes=True)
    resolve.add_argument("subscription")
    resolve.add_argument(
        "--as",
        dest="verdict",
        required=True,
        choices=("succeeded", "failed", "void"),
        help="succeeded commits its ranges; failed and void make them pending again, under new tokens",
    )
    resolve.add_argument("--without-looking", action="store_true", help="do not look at the run in the workspace first")
    _workspace(resolve)


def _command(words: Commands, word: str, does: str, text: str, *, writes: bool = False) -> ArgumentParser:
    command = words.add_parser(word, help=text, description=text)
    command.set_defaults(command=f"{_PACKAGE}.{does}")
    command.add_argument("--ledger", help="the ledger's address (airflow, s3://..., file:///..., control-table:...)")
    command.add_argument("--airflow-url", help="Airflow's base URL")
    command.add_argument("--airflow-user", help="the user to log in with; the password comes from the environment")
    command.add_argument("--json", action="store_true", help="print JSON")
    if writes:
        command.add_argument("--why", required=True, help="the reason, for the history")
        command.add_argument("--by", help="who does it, for the history (default: the user of this process)")
        command.add_argument("--yes", action="store_true", help="do not ask")
    return command


def _expected(command: ArgumentParser) -> None:
    command.add_argument(
        "--expected", metavar="TIME", help="mark claims STUCK that are open for longer (45s, 90m, 2h, 1d)"
    )


def _workspace(command: ArgumentParser) -> None:
    command.add_argument("--databricks-conn-id", help="the Airflow connection of the job's workspace")
