"""An application to talk to without a network, and tabs of a browser that shows its page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from rfp.explorer.app import create_app
from rfp.explorer.limits import Limits
from rfp.explorer.server import karate_club
from tests.explorer.browser import CHROMIUM, FLAGS, OpenTab, RunningServer, Tab, running

TOKEN = "a-token-for-tests"
HOST = "127.0.0.1:8000"
SMALL = Limits(upload_bytes=20_000, nodes=500, edges=2_000, width=1024, trajectories=4, trajectory_bytes=4_000_000)


class Page:
    """What the page does, without a browser."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.graph = self.json("hello")["graph"]

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(f"/api/{path}", headers={"X-Rfp-Token": TOKEN, **headers})

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, owner: str = "tab", graph: str = "", **settings: Any) -> Any:
        wanted = {"graph": graph or self.graph, "settings": settings, "owner": owner}
        return self.client.post("/api/encodings", json=wanted, headers={"X-Rfp-Token": TOKEN})

    def encode(self, owner: str = "tab", graph: str = "", **settings: Any) -> Any:
        """Ask and wait."""
        answer = self.ask(owner, graph, **settings)
        assert answer.status_code == 200, answer.text
        return self.wait(f"encodings/{answer.json()['key']}")

    def wait(self, path: str) -> Any:
        for _ in range(3600):  # a first call compiles, which takes long on a busy machine
            about = self.json(path)
            if about["status"] not in ("waiting", "running"):
                return about
            time.sleep(0.05)
        raise AssertionError(f"{path} took too long")

    def upload(self, name: str, body: bytes) -> Any:
        return self.client.post("/api/graphs", params={"name": name}, content=body, headers={"X-Rfp-Token": TOKEN})


@pytest.fixture(scope="module")
def page() -> Page:
    app = create_app(karate_club(), token=TOKEN, hosts=[HOST], limits=SMALL)
    return Page(TestClient(app, base_url=f"http://{HOST}"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running() as started:
        yield started


@pytest.fixture
def open_tab(browser: Any, server: RunningServer) -> Iterator[OpenTab]:
    contexts = []

    def open_one(fragment: str = "", *, address: str | None = None, settle: bool = True, **options: Any) -> Tab:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 720}, **options})
        contexts.append(context)
        tab = Tab(context.new_page(), server.address if address is None else address)
        if settle:
            return tab.open(fragment)
        tab.page.goto(tab.address + fragment)
        return tab

    yield open_one
    for context in contexts:
        context.close()
