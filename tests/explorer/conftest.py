"""An application to talk to without a network."""

from __future__ import annotations

import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from rfp.explorer.app import create_app
from rfp.explorer.limits import Limits
from rfp.explorer.server import karate_club

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
        for _ in range(600):
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
