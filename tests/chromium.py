"""A headless Chromium without network, controlled over a pipe by its protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") \
    or shutil.which("google-chrome")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
          "--hide-scrollbars", "--remote-debugging-pipe", "--force-prefers-reduced-motion",
          "--proxy-server=127.0.0.1:1", "--disable-background-networking", "--no-first-run")


class Browser:
    """A page of a browser.

    Args:
        commands: pipe to write to.
        answers: pipe to read from.
    """

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._session, self._buffer = 0, "", b""
        self.requests: list[str] = []
        self.messages: list[str] = []
        self.blocked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; record requests and messages until the answer arrives."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters,
                   **({"sessionId": self._session} if self._session else {})}
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._record(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._answers.fileno(), 1 << 16)
            assert more, "the browser has ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _record(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        if parameters.get("blockedReason"):
            self.blocked.append(parameters["blockedReason"])
        if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded",
                               "Runtime.consoleAPICalled"):
            self.messages.append(json.dumps(parameters))

    def open(self, path: Path, width: int, dark: bool = False, medium: str = "screen") -> None:
        """Open a file in a window of a given width, in a theme, for a screen or for print."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=medium, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=path.resolve().as_uri())
        while self.run("document.readyState") != "complete":
            pass

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self.call("Runtime.evaluate", expression=script,
                         returnByValue=True)["result"].get("value")

    def picture(self, path: Path, height: float = 0, top: float = 0) -> None:
        """Save a picture of the page, or of a part with this height in pixels."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {**size, "y": top, "scale": 1,
                "height": min(height or size["height"], size["height"] - top)}
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with a profile in a folder, and end it."""
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()

    # The protocol uses file descriptors 3 and 4.
    redirected = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
    process = subprocess.Popen(
        ["bash", "-c", redirected, "bash", str(PROGRAM), *_FLAGS, f"--user-data-dir={folder}",
         "about:blank"], pass_fds=(read_commands, write_answers), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    os.close(read_commands)
    os.close(write_answers)
    try:
        with os.fdopen(commands, "wb") as writes, os.fdopen(answers, "rb") as reads:
            yield Browser(writes, reads)
    finally:
        process.terminate()
        process.wait(30)
