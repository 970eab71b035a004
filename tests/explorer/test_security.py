"""Who may not come in."""

from __future__ import annotations

import socket

import pytest
from starlette.testclient import TestClient

from rfp.explorer.app import create_app
from rfp.explorer.server import hosts_of, karate_club, serve
from tests.explorer.conftest import HOST, TOKEN, Page


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "ä"])
def test_wrong_token(page: Page, token: str) -> None:
    headers = {"X-Rfp-Token": token.encode()} if token else {}
    for path in ("hello", f"graphs/{page.graph}", f"graphs/{page.graph}/positions", "encodings/x"):
        answer = page.client.get(f"/api/{path}", headers=headers)
        assert answer.status_code == 401
        assert "token" in answer.json()["error"]
    assert page.client.post("/api/encodings", json={}, headers=headers).status_code == 401
    assert page.client.post("/api/graphs?name=a.txt", content=b"0 1", headers=headers).status_code == 401


def test_foreign_host_is_refused_even_with_the_token(page: Page) -> None:
    for host in ("evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "", "127.0.0.1:8000.evil.example"):
        assert page.get("hello", Host=host).status_code == 421, host
        assert page.client.get("/", headers={"Host": host}).status_code == 421, host


def test_browsers_leave_out_port_80(page: Page) -> None:
    app = create_app(karate_club(), token=TOKEN, hosts=hosts_of("127.0.0.1", 80))
    at_80 = Page(TestClient(app, base_url="http://127.0.0.1"))
    for host in ("127.0.0.1", "127.0.0.1:80", "localhost", "LOCALHOST"):
        assert at_80.get("hello", Host=host, Origin=f"http://{host}").status_code == 200, host
    for host in ("127.0.0.1:8000", "evil.example", ""):
        assert at_80.get("hello", Host=host).status_code == 421, host


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1"])
def test_an_ipv6_address_stands_in_brackets(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    asked: list[tuple[str, int]] = []
    said: list[str] = []

    def listen(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        return socket.create_server(("127.0.0.1", 0))  # where there may be no IPv6

    def answer(server: object, sockets: list[socket.socket]) -> None:
        port = sockets[0].getsockname()[1]
        sockets[0].close()
        client = TestClient(server.config.app, base_url=f"http://[::1]:{port}")  # type: ignore[attr-defined]
        assert said[0].startswith(f"Exploring Karate club: http://[::1]:{port}/?token=")
        assert client.get("/", headers={"Host": f"[::1]:{port}"}).status_code == 200
        assert client.get("/", headers={"Host": f"::1:{port}"}).status_code == 421

    monkeypatch.setattr("rfp.explorer.server._listen", listen)
    monkeypatch.setattr("uvicorn.Server.run", answer)
    serve(karate_club(), host=host, open_browser=False, say=said.append)
    assert asked == [(host, 0)]
    assert len(said) == 2


def test_foreign_origin_is_refused_even_with_the_token(page: Page) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", f"https://{HOST}"):
        assert page.get("hello", Origin=origin).status_code == 403, origin
    assert page.get("hello", Origin=f"http://{HOST}").status_code == 200
    assert page.get("hello", **{"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_every_answer_carries_the_policy(page: Page) -> None:
    for path in ("/", "/static/js/main.js", "/api/hello", "/nowhere", "/static/../app.py"):
        answer = page.client.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers


def test_no_file_outside_static_is_served(page: Page) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2fapp.py"):
        assert page.client.get(path).status_code in (404, 405), path


def test_the_page_names_no_other_server(page: Page) -> None:
    text = page.client.get("/").text
    assert "http://" not in text
    assert "https://" not in text
    assert "//cdn" not in text
    assert "style=" not in text  # the policy forbids it
