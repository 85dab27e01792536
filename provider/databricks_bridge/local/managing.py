"""`databricks-bridge local down|status|logs|wave`: what is done to a deployment from another process than its own."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databricks_bridge.core.errors import BridgeError, InvalidArgument
from databricks_bridge.local.layout import Layout
from databricks_bridge.local.rest import Rest

DONE, FAILED, USAGE = 0, 1, 2
DEFAULT_FILE = "lab.yaml"
STOP_SECONDS = 90.0
_PAUSE_SECONDS = 0.1
_LAST_SECONDS = 10.0
"""What a process that has stopped may take to be gone, its threads and all."""
_TAIL = 50


class NotRunning(BridgeError):
    """No deployment runs in this home."""


@dataclass(frozen=True)
class Found:
    """A deployment that runs. `described` is its `deployment.json`, None while it starts or stops."""

    home: Path
    pid: int
    described: dict[str, Any] | None

    def workspaces(self) -> dict[str, Rest]:
        described = self.described or {"workspaces": {}}
        ca_file = Path(described["ca_file"]) if described.get("ca_file") else None
        entries = described["workspaces"]
        return {name: Rest(name, entry["host"], entry["token"], ca_file) for name, entry in entries.items()}


def main(argv: Sequence[str]) -> int:
    """`argv` begins with the word; the exit code: 0 done, 1 nothing runs or it failed, 2 a call that cannot work."""
    does = {"down": _down, "status": _status, "logs": _logs, "wave": _wave}[argv[0]]
    return exit_code(lambda: does(_parser(argv[0]).parse_args(argv[1:])))


def exit_code(work: Callable[[], int]) -> int:
    """What `work` returns, or the code of the error that ended it, which is said on standard error."""
    try:
        return work()
    except SystemExit as ended:
        return int(ended.code or 0)
    except InvalidArgument as error:
        print(f"databricks-bridge local: {error}", file=sys.stderr)
        return USAGE
    except BridgeError as error:
        print(f"databricks-bridge local: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130


def find(home: Path) -> Found | None:
    """The deployment of a home. Its lock is held for as long as it lives, so the pid in it is never another's."""
    try:
        with (home / "deployment.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                pid = lock.read().strip()
                return Found(home, int(pid), _described(home)) if pid else None
    except FileNotFoundError:
        pass
    return None


def chosen(known: Mapping[str, Rest], name: str | None) -> Rest:
    """The workspace of this name, or the only one. Raises InvalidArgument, with the names that there are."""
    wanted = name or (next(iter(known)) if len(known) == 1 else None)
    if wanted is None or wanted not in known:
        raise InvalidArgument(f"--workspace {name or 'is missing'}: give one of {', '.join(sorted(known)) or 'none'}")
    return known[wanted]


def ready_file(home: Path) -> Path:
    """Holds the pid of a deployment that is up and furnished, and the lab file that it came from."""
    return home / "ready.json"


def log_file(home: Path) -> Path:
    """What a detached deployment prints."""
    return home / "local.log"


def home_of(options: argparse.Namespace) -> Path:
    """The home that `--home` names, else the one of the lab file. Raises InvalidArgument."""
    if options.home:
        return Path(options.home).absolute()
    file = Path(options.file or DEFAULT_FILE)
    if not options.file and not file.exists():
        raise InvalidArgument(
            f"which deployment? There is no {DEFAULT_FILE} here; give --file LAB.YAML or --home FOLDER"
        )
    from databricks_bridge.local.lab_file import read_lab

    try:
        return read_lab(file).home
    except InvalidArgument as error:
        raise InvalidArgument(f"{error}; or give --home FOLDER, which needs no lab file") from error


def running(options: argparse.Namespace) -> Found:
    home = home_of(options)
    found = find(home)
    if found is None:
        raise NotRunning(f"no deployment runs in {home}; start it with databricks-bridge local up")
    return found


def _down(options: argparse.Namespace) -> int:
    found = running(options)
    os.kill(found.pid, signal.SIGTERM)
    if not _until(lambda: not _is(found), options.timeout):
        # What it has started ends with it: notebooks and Spark watch for the end of their parent.
        os.kill(found.pid, signal.SIGKILL)
        if not _until(lambda: not _is(found), 10):
            raise BridgeError(f"pid {found.pid} of {found.home} does not end, not even by SIGKILL")
        print(f"killed pid {found.pid}, which did not stop in {options.timeout:g} s; a restart loses nothing")
        return DONE
    _until(lambda: not _lives(found.pid), _LAST_SECONDS)
    print(f"stopped pid {found.pid}; {found.home} keeps everything")
    return DONE


def _status(options: argparse.Namespace) -> int:
    home = home_of(options)
    found = find(home)
    workspaces = found.workspaces() if found else {}
    entries = found.described["workspaces"] if found and found.described else {}
    states = {name: _health(rest) for name, rest in workspaces.items()}
    state = "down" if found is None else "up" if entries and all(one == "up" for one in states.values()) else "starting"
    tokens = Layout(home).deployment_file
    value = {
        "home": str(home),
        "state": state,
        "pid": found.pid if found else None,
        "tokens": str(tokens) if entries else None,
        "workspaces": {
            name: {"url": rest.host, "state": states[name], "metastore": entries[name]["metastore"]}
            for name, rest in workspaces.items()
        },
    }
    if options.json:
        print(json.dumps(value, indent=2))
    else:
        pid = f", pid {found.pid}" if found else ""
        print(f"{home}: {state}{pid} (a local stand-in, not Databricks)")
        for name, rest in workspaces.items():
            print(f"  {name}: {rest.host} {states[name]}, metastore {entries[name]['metastore']}")
        if entries:
            print(f"  tokens: {tokens}")
    return DONE if state == "up" else FAILED


def _logs(options: argparse.Namespace) -> int:
    home = home_of(options)
    file = log_file(home)
    if not file.exists():
        raise BridgeError(f"{file} is not there: only a deployment started with --detach writes it")
    for line in _lines(file, options.lines, (lambda: find(home) is not None) if options.follow else None):
        print(line, end="", flush=True)
    return DONE


def _wave(options: argparse.Namespace) -> int:
    found = running(options)
    ready = ready_file(found.home)
    file = options.file or (json.loads(ready.read_text())["file"] if ready.exists() else None)
    if file is None:
        raise InvalidArgument(f"the deployment in {found.home} came from no file; give --file with a list of waves")
    land_wave(found.home, Path(file), options.number, found.workspaces(), print)
    return DONE


def landed_waves(home: Path) -> int:
    """The number of the last wave that was landed in this home, 0 for none."""
    kept = _waves_file(home)
    return int(json.loads(kept.read_text())["landed"]) if kept.exists() else 0


def land_wave(
    home: Path, file: Path, number: int | None, workspaces: Mapping[str, Rest], say: Callable[[str], None]
) -> int:
    """Land a wave of the lab file, the next one unless `number` is given, and remember it; its number.

    Raises BridgeError where there is no such wave, or a workspace of it is not among `workspaces`.
    """
    from databricks_bridge.local.furnish import land
    from databricks_bridge.local.lab_file import read_lab

    lab = read_lab(file)
    number = number or landed_waves(home) + 1
    if not 1 <= number <= len(lab.waves):
        raise BridgeError(
            f"{lab.file} has {len(lab.waves)} waves; there is no wave {number}. Drop a file of your own on the pages, "
            "or begin anew in an empty home"
        )
    for name, arrivals in lab.waves[number - 1].items():
        if name not in workspaces:
            raise BridgeError(f"the deployment in {home} has no workspace {name}, for which wave {number} has files")
        say(f"wave {number} of {len(lab.waves)}: {land(workspaces[name], arrivals, overwrite=True)} files in {name}")
    _waves_file(home).write_text(json.dumps({"landed": number}))
    return number


def _waves_file(home: Path) -> Path:
    return home / "waves.json"


def _described(home: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(Layout(home).deployment_file.read_text()))
    except (FileNotFoundError, ValueError):
        return None


def _health(rest: Rest) -> str:
    try:
        rest.call("GET", "/local/info")
    except BridgeError as error:
        return f"no answer ({type(error).__name__})"
    return "up"


def _is(found: Found) -> bool:
    now = find(found.home)
    return now is not None and now.pid == found.pid


def _lives(pid: int) -> bool:
    """Whether the process, which has let go of its home, is still there: not this one, which may host the deployment, and
    not one that has ended and only waits for its parent to ask.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with suppress(OSError):  # no /proc here, or gone by now
        return pid != os.getpid() and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return pid != os.getpid()


def _until(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def _lines(file: Path, tail: int, follow: Callable[[], bool] | None) -> Iterator[str]:
    with file.open(errors="replace") as text:
        yield from text.readlines()[-tail:]
        while follow is not None:
            alive = follow()
            while line := text.readline():
                yield line
            if not alive:
                return
            time.sleep(_PAUSE_SECONDS)


def parser_of(word: str, text: str) -> argparse.ArgumentParser:
    """The command line of a word of `local`, with the options that say which deployment; see `home_of`."""
    parser = argparse.ArgumentParser(prog=f"databricks-bridge local {word}", description=text)
    parser.add_argument("--file", help=f"the lab file (default {DEFAULT_FILE}, unless --home is given)")
    parser.add_argument("--home", help="the deployment's folder")
    return parser


def _parser(word: str) -> argparse.ArgumentParser:
    texts = {
        "down": "stop a deployment; its home keeps everything",
        "status": "what runs, and where",
        "logs": "what a detached deployment says",
        "wave": "land the next wave of files of the lab file, or the one of that number",
    }
    parser = parser_of(word, texts[word])
    if word == "down":
        parser.add_argument("--timeout", type=float, default=STOP_SECONDS, metavar="SECONDS", help="then it is killed")
    if word == "status":
        parser.add_argument("--json", action="store_true", help="print JSON")
    if word == "logs":
        parser.add_argument("-f", "--follow", action="store_true", help="go on until the deployment ends")
        parser.add_argument("-n", "--lines", type=int, default=_TAIL, help=f"how many lines back (default {_TAIL})")
    if word == "wave":
        parser.add_argument("number", nargs="?", type=int, help="land this one again; the next one comes after it")
    return parser
