"""A page in Chromium that a test uses as a person does: keys, clicks, widths, colours; by the DevTools protocol.

Chromium reads requests from its file 3 and writes answers to its file 4 (``--remote-debugging-pipe``), JSON texts that
end with a zero byte. So no port is open and no package is needed.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import subprocess
import time
from pathlib import Path

import pytest
from _browser import FLAGS, find_browser

KEYS = {"Tab": (9, None), "Enter": (13, "\r"), " ": (32, " "), "Backspace": (8, None)}


class Page:
    """One tab. Use it with ``with``: at the end the browser is closed."""

    def __init__(self, folder):
        down, up = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (down[0], up[1])]  # 3 and 4 may be ours
        call = [find_browser(), *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        script = f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]}'  # Chromium wants the files 3 and 4: the shell gives them
        self._browser = subprocess.Popen(
            ["bash", "-c", script, "bash", *call], pass_fds=theirs, stderr=subprocess.DEVNULL
        )
        for each in (down[0], up[1], *theirs):
            os.close(each)
        self._write, self._read, self._rest = down[1], up[0], b""
        self._number, self._loads, self._session, self.console, self.answer = 0, 0, None, [], ""
        pages = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        target = pages[0]["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session = None
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            self._browser.kill()
        self._browser.wait(20)
        os.close(self._write)
        os.close(self._read)

    # -- the protocol --------------------------------------------------------------------------------------

    def _next(self, until):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            chunk = os.read(self._read, 1 << 16)
            assert chunk, "Chromium has ended"
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _send(self, method, params):
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        return self._number

    def call(self, method, **params):
        """Return what a method of the protocol returns; dialogs that open meanwhile get the text ``answer``."""
        number, until = self._send(method, params), time.monotonic() + 60.0
        while True:
            told = self._next(until)
            if told.get("id") == number:
                assert "error" not in told, (method, told)
                return told["result"]
            event, about = told.get("method"), told.get("params", {})
            if event == "Page.javascriptDialogOpening":
                accepted = {"accept": self.answer is not None, "promptText": self.answer or ""}
                self._send("Page.handleJavaScriptDialog", accepted)
            elif event == "Page.loadEventFired":
                self._loads += 1
            elif event == "Runtime.exceptionThrown":
                self.console.append(about["exceptionDetails"]["text"])
            elif event == "Log.entryAdded" and about["entry"]["level"] == "error":
                self.console.append(about["entry"]["text"])

    # -- what a person does --------------------------------------------------------------------------------

    def go(self, address):
        """Open an address, and wait until it is loaded."""
        before = self._loads
        self.call("Page.navigate", url=address)
        while self._loads == before:
            self.see("0")
            time.sleep(0.02)

    def see(self, script):
        """Return the value of an expression on the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script, seconds=30.0):
        """Return the value of an expression as soon as it is true."""
        until = time.monotonic() + seconds
        while not (found := self.see(script)):
            assert time.monotonic() < until, (script, self.see("document.body.innerText"), self.console)
            time.sleep(0.03)
        return found

    def press(self, key, shift=False):
        """Press a key."""
        code, text = KEYS[key]
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def write(self, text):
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def window(self, width, height=900, dark=False, phone=False):
        """Give the window a size, and the colours that a person prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path):
        """Write what is seen, the whole page, to a PNG file."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(found["data"]))

    def serious(self):
        """Return what axe-core calls serious or critical on the page, with everything unfolded: rules and elements."""
        rules = pytest.importorskip("axe_core_python")
        self.see("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        self.see(Path(rules.__file__).with_name("axe.min.js").read_text(encoding="utf-8") + ";0")
        found = self.see("axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)")
        return [
            f"{one['id']}: {node['html'][:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
