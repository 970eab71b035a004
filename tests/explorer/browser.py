"""A real browser on a real server: Debian's Chromium, driven by Playwright, and the application behind uvicorn."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import uvicorn

import rfp
from rfp.explorer.app import create_app
from rfp.explorer.limits import Limits
from rfp.explorer.server import karate_club

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
TOKEN = "token-of-the-browser-tests"
# Longer than the slowest machine needs: these only end a wait for something that never comes.
PATIENCE = 120.0
LIMITS = Limits(upload_bytes=200_000, nodes=2_000, edges=10_000, width=2048, trajectory_bytes=50_000_000)


class RunningServer:
    """The explorer in a thread, to be stopped and started again at the same place."""

    def __init__(self, port: int = 0, token: str = TOKEN, limits: Limits = LIMITS) -> None:
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.token = token
        app = create_app(karate_club(), token=token, hosts=[f"127.0.0.1:{self.port}"], limits=limits)
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.02)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        self.listener.close()


@contextmanager
def running(**arguments: Any) -> Iterator[RunningServer]:
    server = RunningServer(**arguments)
    try:
        yield server
    finally:
        server.stop()


class Tab:
    """A page of the browser, and what a person does with it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        page.set_default_timeout(1000 * PATIENCE)
        self.errors: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, fragment: str = "") -> Tab:
        self.page.goto(self.address + fragment)
        return self.settle()

    def settle(self) -> Tab:
        """Wait until what was asked for is on the screen."""
        return self.until("Boolean(globalThis.explorer?.settled())")

    def until(self, expression: str, argument: Any = None, seconds: float = PATIENCE) -> Tab:
        """Wait until something holds. (Playwright's own way evaluates text in the page, which its policy forbids.)"""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression, argument):
            assert time.monotonic() < end, f"never true: {expression}"
            self.page.wait_for_timeout(30)
        return self

    def says(self, place: str, pattern: str) -> str:
        """Wait until the text at a place (a CSS selector) matches; the text."""
        script = "([place, pattern]) => new RegExp(pattern).test(document.querySelector(place)?.innerText ?? '')"
        self.until(script, [place, pattern])
        return str(self.page.locator(place).first.inner_text())

    def values(self, side: int = 0) -> np.ndarray:
        """The numbers that colour the nodes."""
        return np.array(self.page.evaluate(f"Array.from(explorer.values({side}))"), dtype=np.float32)

    def set(self, name: str, value: object) -> Tab:
        """Type into a number field, or choose."""
        field = self.page.locator(f"#in-{name}")
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(str(value))
        else:
            field.fill(str(value))
        return self.asked(name, value)

    def asked(self, name: str, value: object, side: int = 0) -> Tab:
        """Wait until the state has that setting and the screen follows."""
        wanted = value if isinstance(value, list) else str(value)
        script = "([side, name, wanted]) => { const is = explorer.state.panes[side]?.[name];"
        script += " return JSON.stringify(Array.isArray(is) ? is : String(is)) === JSON.stringify(wanted); }"
        return self.until(script, [side, name, wanted]).settle()

    def go_to(self, step: int) -> Tab:
        self.page.locator("#step").fill(str(step))
        return self.settle()

    def hover(self, node: int) -> str:
        """Put the pointer on a node; what the page says about it."""
        x, y = self.page.evaluate(f"explorer.place({node})")
        self.page.locator(".pane canvas").first.hover(position={"x": x, "y": y})
        return self.says(".tip", rf"^{node}\b")

    def click(self, node: int, **options: Any) -> Tab:
        x, y = self.page.evaluate(f"explorer.place({node})")
        self.page.locator(".pane canvas").first.click(position={"x": x, "y": y}, **options)
        return self


OpenTab = Callable[..., Tab]
CLUB = karate_club().graph
# Marks of tests that need the browser.
IN_A_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: apt-get install chromium"),
]


def expected(step: int, channel: int, **settings: Any) -> np.ndarray:
    t = rfp.encode(CLUB, **{"num_channels": 4, "num_steps": 32, **settings})
    return t.states[0, :, step, channel].numpy()
