"""`local fault`: faults of a running local deployment, by its `/local/faults`."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from databricks_bridge.cli.running import Report
from databricks_bridge.core.errors import InvalidArgument

if TYPE_CHECKING:
    from databricks_bridge.cli.parser import Commands
    from databricks_bridge.cli.session import Session

KINDS = (
    "rate_limit",
    "unavailable",
    "drop_answer",
    "expire_tokens",
    "clock",
    "revoke",
    "slow_storage",
    "published_limits",
)
_FIELDS = ("seconds", "count", "path", "delay_seconds", "privilege", "securable")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_EPILOG = """\
kinds:
  rate_limit        every request is answered 429 with Retry-After (--seconds, --count, --path)
  unavailable       503 with Retry-After, likewise
  drop_answer       the request is acted on, its answer is lost (--count, default 1; --path)
  expire_tokens     all OAuth tokens of the workspace end now
  clock             the time of the whole deployment goes forward by --seconds
  revoke            the user loses --privilege (SELECT, READ_VOLUME, USE_SCHEMA, USE_CATALOG) on --securable
  slow_storage      each request for files or tables takes --delay-seconds longer
  published_limits  the requests a second that Databricks publishes for its Jobs API

a restart of the deployment ends all faults"""


def add(words: Commands) -> None:
    """The words of `local fault`."""
    group = words.add_parser(
        "fault", help="faults on purpose", epilog=_EPILOG, formatter_class=RawDescriptionHelpFormatter
    )
    verbs = group.add_subparsers(required=True, metavar="COMMAND")
    arm = _verb(verbs, "add", "declare a fault; it begins at once")
    arm.add_argument("kind", choices=KINDS)
    arm.add_argument(
        "--seconds", metavar="TIME", help="how long it lasts, or by how much the clock moves (30s, 5m, 1h)"
    )
    arm.add_argument("--count", type=int, help="so many requests")
    arm.add_argument("--path", help="only requests whose path holds this text")
    arm.add_argument("--delay-seconds", metavar="TIME", help="of slow_storage")
    arm.add_argument("--privilege", help="of revoke (default SELECT)")
    arm.add_argument("--securable", help="of revoke: catalog.schema.table, or the schema or catalog")
    _verb(verbs, "list", "the faults that go on")
    end = _verb(verbs, "end", "end one fault, or all of the workspace")
    end.add_argument("fault_id", nargs="?", type=int)


def _verb(verbs: Commands, verb: str, text: str) -> ArgumentParser:
    parser = verbs.add_parser(verb, help=text, description=text)
    parser.set_defaults(command=f"{__name__}.{verb}_")
    parser.add_argument("--home", help="the deployment's home folder, unless it is that of the lab file")
    parser.add_argument("--file", help="the lab file (default: lab.yaml here)")
    parser.add_argument("--workspace", help="needed where the deployment has several")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


async def add_(session: Session) -> Report:
    options = session.options
    body: dict[str, Any] = {"kind": options.kind}
    for field in _FIELDS:
        value = getattr(options, field)
        if value is not None:
            body[field] = seconds(value) if field in ("seconds", "delay_seconds") else value
    answer = await _call(options, "POST", "", body)
    return Report(answer, [_line(answer)])


async def list_(session: Session) -> Report:
    answer = await _call(session.options, "GET", "")
    return Report(answer, [_line(fault) for fault in answer["faults"]] or ["no fault goes on"])


async def end_(session: Session) -> Report:
    number = session.options.fault_id
    await _call(session.options, "DELETE", "" if number is None else f"/{number}")
    return Report({}, ["ended" if number else "all ended"])


def seconds(text: str) -> float:
    """`30`, `30s`, `5m`, `1h` or `1d` in seconds. Raises InvalidArgument."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        return float(number) * _UNITS[unit]
    except ValueError:
        raise InvalidArgument(f"{text!r} is no time; give seconds, or such as 30s, 5m, 1h") from None


async def _call(options: Namespace, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return await asyncio.to_thread(_asked, options, method, path, body)


def _asked(options: Namespace, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
    from databricks_bridge.local.managing import chosen, find, home_of

    home = home_of(options)
    found = find(home)
    if found is None:
        raise InvalidArgument(f"nothing runs in {home}: is a local deployment up with this --home?")
    return chosen(found.workspaces(), options.workspace).call(method, f"/local/faults{path}", body)


def _line(fault: Mapping[str, Any]) -> str:
    more = ", ".join(f"{name} {value}" for name, value in fault.items() if name not in ("fault_id", "kind"))
    return f"{fault['fault_id']}  {fault['kind']}{f'  {more}' if more else ''}"
