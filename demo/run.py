"""`python -m demo`: tells the story, shows the proof, and leaves nothing behind unless it was asked to."""

from __future__ import annotations

import shutil
import signal
import sys
from types import FrameType

from demo import evidence, history, proof
from demo.airflow_home import USER
from demo.history import Verdict
from demo.places import DemoFailed, Places
from demo.processes import AlreadyRunning, Services, only_one, stop_recorded
from demo.story import Story, World
from demo.ui import Progress

INTERRUPTED = 130


def run(places: Places, keep: bool) -> int:
    """0 when the proof holds, 1 when it does not or the demo failed, 130 when it was interrupted."""
    _catch_signals()
    progress = Progress()
    try:
        with only_one(places):
            return _run(places, keep, progress)
    except AlreadyRunning as refused:
        progress.say(str(refused))
        return 1


def _run(places: Places, keep: bool, progress: Progress) -> int:
    services = Services(places)
    try:
        _clean(places, progress)
        world = Story(places, services, progress).tell()
        verdict = _prove(places, world, progress)
        if not keep:
            with progress.leg("every process is stopped"):
                services.stop()
        progress.console.print(progress.times())
        if keep:
            _tell_where(progress, world, places)
        print(verdict.line, flush=True)
        return 0 if verdict.holds else 1
    except KeyboardInterrupt:
        _give_up(services, progress, places, "interrupted")
        return INTERRUPTED
    except DemoFailed as failure:
        _give_up(services, progress, places, str(failure))
        return 1
    except BaseException:
        _give_up(services, progress, places, "the demo itself failed")
        raise


def _prove(places: Places, world: World, progress: Progress) -> Verdict:
    with progress.leg("the proof is computed from run lists, outputs, Airflow's REST API and the tables"):
        facts = evidence.gather(places, world.workspaces, world.airflow)
        verdict = history.judge(facts)
    proof.show(progress.console, facts, verdict)
    return verdict


def _clean(places: Places, progress: Progress) -> None:
    with progress.leg("what an earlier demo left is cleared away"):
        for name in stop_recorded(places):
            progress.now(f"stopping {name}")
        for entry in places.home.iterdir():
            if entry == places.lock:
                continue
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()


def _give_up(services: Services, progress: Progress, places: Places, why: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave half of them running
    progress.say(why)
    progress.say("stopping every process")
    services.stop()
    progress.say(f"logs: {places.logs}, {places.airflow / 'logs'}, {places.local}")


def _tell_where(progress: Progress, world: World, places: Places) -> None:
    progress.say("kept running:")
    progress.say(f"Airflow {world.airflow_home.url}, login {USER}, password {world.airflow_home.password}")
    for workspace in world.workspaces.values():
        progress.say(f"workspace {workspace.name} {workspace.host} (a local stand-in, not Databricks)")
    progress.say(f"their tokens are in {places.deployment}")
    progress.say("stop it: .venv/bin/python -m demo stop")


def _catch_signals() -> None:
    # Also where the shell started us with SIGINT ignored, as it does in the background: the children inherit that.
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def stop(places: Places) -> int:
    """End what `KEEP=1` kept. A demo that is still being told is left to its own Ctrl-C."""
    try:
        with only_one(places):
            if places.processes.exists():
                print("stopping Airflow and the local workspaces, which takes some seconds", file=sys.stderr)
            stopped = stop_recorded(places)
    except AlreadyRunning as refused:
        print(refused, file=sys.stderr)
        return 1
    print(f"stopped: {', '.join(stopped)}" if stopped else "nothing is running", file=sys.stderr)
    return 0
