"""Runs one parsed command: what it returns is printed for people or for programs, what it raises becomes an exit code."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from databricks_bridge.core.errors import BridgeError, InvalidArgument

DONE, FAILED, USAGE, NEEDS_A_PERSON, NOT_CONFIRMED = 0, 1, 2, 3, 4


class NotConfirmed(Exception):
    """The person said no, or could not be asked."""


@dataclass(frozen=True)
class Report:
    """What a command found or did: `value` for programs, `lines` for people."""

    value: Any
    lines: Sequence[str]
    code: int = DONE


def run(options: Namespace) -> int:
    """Do the command and print; the exit code."""
    try:
        # Airflow, once imported, logs to what is stdout then; that belongs to the answer.
        with redirect_stdout(sys.stderr):
            report = asyncio.run(_done(options))
    except NotConfirmed as error:
        return _failed(options, error, NOT_CONFIRMED)
    except InvalidArgument as error:
        return _failed(options, error, USAGE)
    except BridgeError as error:
        return _failed(options, error, FAILED)
    except KeyboardInterrupt:
        return 130
    if options.json:
        print(json.dumps(report.value, indent=2, default=str))
    else:
        print("\n".join(report.lines))
    return report.code


async def _done(options: Namespace) -> Report:
    from databricks_bridge.cli.session import Session

    module, _, name = options.command.rpartition(".")
    async with Session(options) as session:
        report: Report = await getattr(import_module(module), name)(session)
    return report


def _failed(options: Namespace, error: Exception, code: int) -> int:
    if options.json:
        print(json.dumps({"error": {"kind": type(error).__name__, "message": str(error)}}, indent=2))
    else:
        print(f"databricks-bridge: {error}", file=sys.stderr)
    return code
