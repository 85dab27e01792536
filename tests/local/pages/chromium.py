"""A headless Chromium, driven over its DevTools pipe: one process for all pages, and nothing to install for it."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-lcd-text",
    "--remote-debugging-pipe",
)
SECONDS = 30.0


@dataclass
class Chromium:
    """One page of a browser."""

    _to: int
    _from: int
    _session: str = ""
    _number: int = 0
    _unread: bytes = b""
    _events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol; its result."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, (method, said["error"])
                return dict(said["result"])
            self._events.append(said)

    def attach(self) -> None:
        """Take the one page that is open."""
        targets = self.call("Target.getTargets")["targetInfos"]
        (page,) = [target["targetId"] for target in targets if target["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def look(self, width: int, *, dark: bool) -> None:
        """How wide the window is, and which colours the system prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to a page and wait until it is there."""
        with self._loading():
            self.call("Page.navigate", url=url)

    def press(self, label: str) -> None:
        """Press the button that says so, and wait for the page that follows."""
        with self._loading():
            pressed = self.value(
                f"[...document.querySelectorAll('button')].filter(b => b.textContent === {json.dumps(label)})"
                ".slice(0, 1).map(b => b.click()).length"
            )
            assert pressed == 1, f"no button {label}"

    def value(self, expression: str) -> Any:
        """What an expression comes to in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def tab(self) -> None:
        """Press the tab key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def picture(self) -> bytes:
        """A PNG of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def complaints(self) -> list[str]:
        """What the browser has logged: scripts and styles that the policy refused, errors."""
        entries = [said["params"]["entry"] for said in self._events if said.get("method") == "Log.entryAdded"]
        return [f"{entry['level']}: {entry['text']}" for entry in entries if entry["level"] in ("error", "warning")]

    @contextmanager
    def _loading(self) -> Iterator[None]:
        self._events = [said for said in self._events if said.get("method") != "Page.loadEventFired"]
        yield
        while not any(said.get("method") == "Page.loadEventFired" for said in self._events):
            self._events.append(self._next())

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._unread:
            assert time.monotonic() < deadline, f"Chromium said nothing for {SECONDS} s"
            try:
                read = os.read(self._from, 1 << 20)
            except BlockingIOError:
                time.sleep(0.002)
                continue
            assert read, "Chromium has ended"
            self._unread += read
        whole, _, self._unread = self._unread.partition(b"\0")
        return dict(json.loads(whole))


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """Chromium with an empty profile in `profile`, and its end."""
    assert PROGRAM is not None, "there is no Chromium"
    there_in, here_out = os.pipe()
    here_in, there_out = os.pipe()
    # The pipe has to be at 3 and 4 in the new process: first out of the way of those.
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (there_in, there_out)]
    log = os.open(profile.with_suffix(".log"), os.O_WRONLY | os.O_CREAT, 0o600)
    actions = [
        (os.POSIX_SPAWN_DUP2, high[0], 3),
        (os.POSIX_SPAWN_DUP2, high[1], 4),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    words = [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
    pid = os.posix_spawn(PROGRAM, words, dict(os.environ), file_actions=actions, setpgroup=0)
    for one in (there_in, there_out, *high, log):
        os.close(one)
    os.set_blocking(here_in, False)
    page = Chromium(here_out, here_in)
    try:
        page.attach()
        yield page
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(here_out)
        os.close(here_in)
