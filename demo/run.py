"""`python -m demo`: tells the story, shows the proof, and leaves nothing behind unless it was asked to."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from demo import evidence, history, proof, waves
from demo.airflow_home import USER
from demo.history import Verdict
from demo.places import ROOT, DemoFailed, Places
from demo.processes import AlreadyRunning, Services, only_one, stop_recorded
from demo.story import Story, World
from demo.ui import Progress
from demo.where import Where, lines

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
        facts = evidence.gather(places, world.workspaces, world.airflow, waves.shipped())
        verdict = history.judge(facts)
    proof.show(progress.console, facts, verdict)
    return verdict


def _clean(places: Places, progress: Progress) -> None:
    with progress.leg("what an earlier demo left is cleared away"):
        if places.processes.exists():
            progress.now("stopping what KEEP=1 left running, or a demo that was killed")
        if stopped := stop_recorded(places):
            progress.say(f"stopped what an earlier demo had left running: {', '.join(stopped)}")
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
    with progress.leg("stopping every process, which takes up to half a minute"):
        services.stop()
    progress.say(f"logs: {places.logs}, {places.airflow / 'logs'}, {places.local}")


def _tell_where(progress: Progress, world: World, places: Places) -> None:
    # `local wave` lands the wave after those of the story.
    (places.local / "waves.json").write_text(json.dumps({"landed": max(waves.STORY)}))
    command = f"{_shown(Path(sys.executable).with_name('databricks-bridge'))} local"
    home = f"--home {_shown(places.local)}"
    kept = Where(
        airflow=world.airflow_home.url,
        login=f"login {USER}, password {world.airflow_home.password}",
        workspaces={workspace.name: workspace.host for workspace in world.workspaces.values()},
        links=f"{command} links {home}",
        wave=f"{command} wave --file docker/lab.yaml {home}",
        stop=f"{_shown(Path(sys.executable))} -m demo stop",
    )
    progress.say("kept running:")
    for line in lines(kept):
        progress.say(line)


def _shown(path: Path) -> str:
    """As it is typed in the project's folder."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


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
