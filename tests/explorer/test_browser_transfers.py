"""The page in a real browser: what comes in and goes out, and to whom. Skipped by name where no Chromium is found."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imread

import rfp
from tests.explorer.browser import CLUB, IN_A_BROWSER, OpenTab, RunningServer, expected

pytestmark = IN_A_BROWSER


def test_upload_good_and_bad(open_tab: OpenTab, tmp_path: Path) -> None:
    tab = open_tab()
    good = tmp_path / "ring.csv"
    good.write_text("".join(f"n{i},n{(i + 1) % 12}\n" for i in range(12)))
    tab.page.set_input_files("#file", good)
    tab.until("document.querySelector('#graph-name').textContent.includes('12 nodes')")
    tab.settle()
    t = rfp.encode(rfp.io.read_graph(good).graph, num_channels=4, num_steps=32)
    np.testing.assert_array_equal(tab.values(), t.states[0, :, 0, 1].numpy())
    tab.page.locator("#search").fill("n7")
    tab.says("#search-results [role=option]", "^n7$")
    for name, body, part in (
        ("bad.csv", b"a,b,c,d\n1,2\n", "bad.csv"),
        ("code.pt", b"PK", "pickle"),
        ("large.txt", b"0 1\n" * 60_000, "command line"),
        ("many.txt", b"\n".join(b"0 %d" % i for i in range(1, 3000)), "nodes"),
    ):
        (tmp_path / name).write_bytes(body)
        tab.page.set_input_files("#file", tmp_path / name)
        tab.says(".toast.bad", part)
        tab.page.locator(".toast.bad button").click()
        tab.until("document.querySelector('.toast.bad') === null")
    assert "12 nodes" in tab.page.locator("#graph-name").inner_text()  # what was there is still there


def test_drag_and_drop(open_tab: OpenTab) -> None:
    tab = open_tab()
    transfer = tab.page.evaluate_handle(
        "() => { const t = new DataTransfer(); t.items.add(new File(['0 1\\n1 2\\n'], 'path.txt')); return t; }"
    )
    tab.page.dispatch_event("body", "dragenter", {"dataTransfer": transfer})
    assert tab.page.locator("#drop").is_visible()
    tab.page.dispatch_event("body", "drop", {"dataTransfer": transfer})
    tab.until("document.querySelector('#graph-name').textContent.includes('3 nodes, 2 edges')")
    assert tab.page.locator("#drop").is_hidden()
    tab.settle()
    assert tab.values().shape == (3,)
    assert tab.errors == []


def test_copy(open_tab: OpenTab) -> None:
    tab = open_tab("#p=6&c=3&k=5", permissions=["clipboard-read", "clipboard-write"])
    tab.page.click("#copy")
    shown = tab.says("#copy-text", "rfp.encode")
    tab.page.click("#copy-now")
    tab.says(".toast", "Copied as Python")
    assert tab.page.evaluate("navigator.clipboard.readText()").strip() == shown.strip()
    names: dict[str, Any] = {}
    exec(shown, names)
    np.testing.assert_array_equal(names["values"].numpy(), tab.values())
    tab.page.click("#copy")
    tab.page.click("#copy-command")
    tab.says("#copy-text", "rfp encode - ")
    tab.page.keyboard.press("Escape")
    assert tab.errors == []


def test_export(open_tab: OpenTab) -> None:
    tab = open_tab("#p=6")

    def download(kind: str) -> bytes:
        tab.page.click("#export")
        with tab.page.expect_download() as found:
            tab.page.click(f"[data-export={kind}]")
        return Path(found.value.path()).read_bytes()

    array = np.load(io.BytesIO(download("npy")))
    np.testing.assert_array_equal(array, rfp.encode(CLUB, num_channels=4, num_steps=32).node_first().numpy())
    picture = imread(io.BytesIO(download("png")))
    assert picture.shape[0] > 400
    ground = picture[0, 0, :3]
    assert 0.01 < float((abs(picture[..., :3] - ground) > 0.1).any(-1).mean()) < 0.5  # neither blank nor a blot
    drawing = download("svg").decode()
    assert drawing.count("<circle") == 34
    assert drawing.count("M") == 78
    assert tab.errors == []


def test_wrong_token(open_tab: OpenTab, server: RunningServer) -> None:
    for address in (f"http://127.0.0.1:{server.port}/", server.address + "x"):
        tab = open_tab(address=address, settle=False)
        tab.says(".fatal", "wrong key")
        assert tab.page.evaluate("explorer.state.graph") is None


def test_a_page_of_another_site_gets_nothing(open_tab: OpenTab, server: RunningServer, browser: Any) -> None:
    page = browser.new_context().new_page()
    page.route("http://evil.example/", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html"))
    page.goto("http://evil.example/")
    api = f"http://127.0.0.1:{server.port}/api"
    answers = []
    page.on("response", lambda response: answers.append(response.status))
    fetched = page.evaluate(
        """async ([api, token]) => {
            const tries = [
                () => fetch(`${api}/hello?token=${token}`),
                () => fetch(`${api}/hello`, {headers: {"X-Rfp-Token": token}}),
                () => fetch(`${api}/graphs?name=a.txt&token=${token}`, {method: "POST", body: "0 1"}),
            ];
            return Promise.all(tries.map((go) => go().then((r) => r.status, (error) => error.name)));
        }""",
        [api, server.token],
    )
    assert fetched == ["TypeError"] * 3  # the browser may not even read the refusal
    assert all(status >= 400 for status in answers)
    page.context.close()


def test_two_tabs(open_tab: OpenTab) -> None:
    first, second = open_tab("#p=3&k=4"), open_tab("#p=3&k=7&seed=3")
    first.set("seed", 1)
    second.set("seed", 2)
    np.testing.assert_array_equal(first.values(), expected(3, 1, seed=1))
    np.testing.assert_array_equal(second.values(), expected(3, 1, seed=2, num_channels=7))
    second.page.close()
    first.set("seed", 9)
    np.testing.assert_array_equal(first.values(), expected(3, 1, seed=9))
    assert first.errors == []


def test_server_killed_and_back(open_tab: OpenTab) -> None:
    server = RunningServer()
    tab = open_tab("#p=4", address=server.address)
    server.stop()
    tab.page.locator("#in-seed").fill("3")
    banner = tab.page.locator("#banner")
    tab.says("#banner", "does not answer")
    again = RunningServer(port=server.port)
    banner.wait_for(state="hidden")
    tab.asked("seed", 3)
    np.testing.assert_array_equal(tab.values(), expected(4, 1, seed=3))
    again.stop()
    tab.page.locator("#in-seed").fill("4")
    banner.wait_for()
    other = RunningServer(port=server.port, token="another-token-altogether")
    tab.says(".fatal", "started again")
    other.stop()
