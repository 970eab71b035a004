"""The page in a real browser: what it shows and how it is steered. Skipped by name where no Chromium is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rfp
from tests.explorer.browser import CLUB, IN_A_BROWSER, OpenTab, expected

pytestmark = IN_A_BROWSER


def test_loads_and_shows_what_encode_computes(open_tab: OpenTab) -> None:
    tab = open_tab("#p=9&c=2")
    assert tab.page.title() == "Karate club · rfp explorer"
    assert "34 nodes, 78 edges" in tab.page.locator("#graph-name").inner_text()
    np.testing.assert_array_equal(tab.values(), expected(9, 2))
    tab.says("#status", r"(compiled|sparse) backend, [\d.]+ m?s")
    tab.says(".caption", "Step 9, channel 2")
    tab.page.wait_for_selector("#angles-card .u-over")
    tab.says("#angles-card .fact", r"rate 0\.78")
    assert tab.errors == []


def test_hover_shows_id_and_values(open_tab: OpenTab) -> None:
    tab = open_tab("#p=5&c=1&y=3")
    shown = tab.hover(33).replace("\u2212", "-").split()
    assert shown[0] == "33"
    for name, value in (("value", expected(5, 1)[33]), ("3", expected(5, 3)[33])):
        assert float(shown[shown.index(name) + 1]) == pytest.approx(float(value), rel=1e-3)
    assert shown[-2:] == ["degree", "17"]
    assert tab.errors == []


def test_every_control_recomputes(open_tab: OpenTab) -> None:
    tab = open_tab("#p=2&c=1")
    settings: dict[str, Any] = {}
    for name, value in (
        ("num_channels", 6),
        ("num_steps", 12),
        ("normalize_every", 3),
        ("num_trajectories", 2),
        ("normalization", "l2"),
        ("start", "orthonormal"),
        ("distribution", "uniform"),
        ("seed", 7),
    ):
        settings[name] = value
        tab.set(name, value)
        np.testing.assert_array_equal(tab.values(), expected(2, 1, **settings), err_msg=name)
    tab.page.check("[data-operator=normalized_laplacian]")
    tab.asked("operators", ["normalized_adjacency", "normalized_laplacian"])
    tab.page.locator("#in-custom").fill("adjacency^2")
    tab.asked("operators", ["normalized_adjacency", "normalized_laplacian", "adjacency^2"])
    tab.page.locator("#shown-operator").select_option("2")
    tab.page.locator("#shown-trajectory").select_option("1")
    tab.page.locator("#shown-channel").select_option("4")
    tab.go_to(7)
    operators = ["normalized_adjacency", "normalized_laplacian", "adjacency^2"]
    t = rfp.encode(CLUB, **settings, operators=operators)
    np.testing.assert_array_equal(tab.values(), t.states[1, :, 7, 2 * 6 + 4].numpy())
    tab.until("location.hash.includes('seed=7') && location.hash.includes('p=7')")
    address = tab.page.url
    tab.page.reload()
    tab.settle()
    tab.until("(address) => location.href === address", address)
    np.testing.assert_array_equal(tab.values(), t.states[1, :, 7, 2 * 6 + 4].numpy())
    tab.page.click("#reset")
    tab.asked("num_channels", 16)
    assert tab.errors == []


def test_two_fields_changed_before_either_is_asked_for(open_tab: OpenTab) -> None:
    tab = open_tab("#p=2&c=1")
    tab.page.evaluate(
        """() => [["num_channels", 6], ["num_steps", 12]].forEach(([name, value]) => {
            const field = document.querySelector(`#in-${name}`);
            field.value = value;
            field.dispatchEvent(new Event("input", {bubbles: true}));
        })"""
    )
    tab.asked("num_steps", 12).asked("num_channels", 6)
    np.testing.assert_array_equal(tab.values(), expected(2, 1, num_channels=6, num_steps=12))


def test_a_setting_that_is_refused_leaves_the_screen(open_tab: OpenTab) -> None:
    tab = open_tab("#p=2&c=1")
    tab.page.locator("#in-num_channels").fill("900")
    problem = tab.page.locator("#problem")
    tab.says("#problem", "k·P is at most 2048")
    np.testing.assert_array_equal(tab.values(), expected(2, 1))
    tab.set("num_channels", 5)
    assert problem.is_hidden()
    tab.page.locator("#in-custom").fill("nonsense")
    tab.says("#problem", "operator")


def test_what_is_slow_to_draw_has_fewer_edges_until_it_rests(open_tab: OpenTab) -> None:
    tab = open_tab()
    number = tab.page.evaluate("explorer.scene().numEdges")
    tab.page.evaluate(
        """() => {
          const scene = explorer.scene();
          const whole = scene.draw;
          globalThis.drawn = [];
          scene.draw = function (share) { whole.call(this, share); drawn.push(this.shown); };
          scene.share = 0.5;
          explorer.camera.zoomAt(1.5, 100, 100, scene.canvas);
        }"""
    )
    tab.until("number => drawn.length > 1 && drawn.at(-1) === number", number)
    assert tab.page.evaluate("drawn[0]") == number / 2


def test_play_and_keys(open_tab: OpenTab) -> None:
    tab = open_tab("#P=4&p=0")
    tab.page.select_option("#speed", "200")
    tab.page.click("#play")
    tab.until("explorer.state.step === 4")
    tab.settle()
    np.testing.assert_array_equal(tab.values(), expected(4, 1, num_steps=4))
    tab.until("document.querySelector('#play').ariaLabel === 'Play'")
    tab.page.locator("#graph-name").click()
    tab.page.keyboard.press("ArrowLeft")
    assert tab.settle().page.evaluate("explorer.state.step") == 3
    tab.page.keyboard.press("Space")
    tab.until("explorer.state.step === 4")
    assert tab.errors == []


def test_pick_a_node_then_a_pair(open_tab: OpenTab) -> None:
    tab = open_tab("#k=8&P=6&w=1&B=2")
    tab.click(0)
    tab.until("document.querySelector('#products-card h3').textContent === 'Back to 0'")
    tab.says("#products-card .fact", "^16 samples$")
    flat = rfp.encode(CLUB, num_channels=8, num_steps=6, num_trajectories=2).node_first().flatten(1).double()
    distance = (flat - flat[0]).norm(dim=1)
    distance[0] = float("inf")
    nearest = distance.topk(10, largest=False).indices.tolist()
    tab.page.wait_for_selector(".nodes-list button")
    assert [int(text) for text in tab.page.locator(".nodes-list b").all_inner_texts()] == nearest
    tab.click(33, modifiers=["Shift"])
    tab.until("document.querySelector('#products-card h3').textContent === 'From 0 to 33'")
    tab.until("location.hash.includes('node=0%2C33')")
    tab.until("document.querySelectorAll('.mark').length === 2")
    assert tab.errors == []


def test_search_by_id(open_tab: OpenTab) -> None:
    tab = open_tab()
    tab.page.locator("#search").fill("3")
    tab.says("#search-results", "33")
    assert tab.page.locator("#search-results [role=option]").all_inner_texts() == ["3", "30", "31", "32", "33"]
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    tab.until("explorer.state.selected[0] === 30")
    tab.page.locator("#search").fill("99")
    tab.says("#search-results", "No node")


def test_compare(open_tab: OpenTab) -> None:
    tab = open_tab("#p=20&c=2")
    tab.page.click("#compare")
    tab.asked("normalization", "l2", side=1)
    assert tab.page.locator(".pane").count() == 2
    np.testing.assert_array_equal(tab.values(0), expected(20, 2))
    np.testing.assert_array_equal(tab.values(1), expected(20, 2, normalization="l2"))
    tab.page.uncheck("[data-operator=normalized_adjacency]")
    tab.page.check("[data-operator=normalized_laplacian]")
    tab.asked("operators", ["normalized_laplacian"], side=1)
    np.testing.assert_array_equal(tab.values(0), expected(20, 2))
    laplacian = expected(20, 2, normalization="l2", operators=["normalized_laplacian"])
    np.testing.assert_array_equal(tab.values(1), laplacian)
    tab.page.click("[data-pane='0']")
    tab.set("seed", 5)
    np.testing.assert_array_equal(tab.values(0), expected(20, 2, seed=5))
    np.testing.assert_array_equal(tab.values(1), laplacian)
    tab.until("location.hash.includes('2.N=l2')")
    tab.page.reload()
    tab.settle()
    np.testing.assert_array_equal(tab.values(1), laplacian)
    tab.page.click("#compare")
    tab.settle()
    assert tab.page.locator(".pane").count() == 1
    assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(open_tab: OpenTab, scheme: str) -> None:
    size = {"width": 390, "height": 844}
    tab = open_tab("#p=8", viewport=size, color_scheme=scheme, has_touch=True, is_mobile=True)
    assert tab.page.evaluate("document.documentElement.dataset.theme") == scheme
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    tab.page.click("summary")
    tab.set("num_channels", 5)
    tab.page.click("#theme")
    assert tab.page.evaluate("document.documentElement.dataset.theme") != scheme
    assert tab.errors == []


def test_keyboard_reaches_everything_and_everything_has_a_name(open_tab: OpenTab) -> None:
    tab = open_tab()
    reached = set()
    for _ in range(60):
        tab.page.keyboard.press("Tab")
        reached.add(tab.page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    wanted = {"search", "compare", "copy", "export", "theme", "in-num_channels", "in-seed", "step", "play", "CANVAS"}
    assert wanted - reached == set()
    nameless = tab.page.evaluate(
        """[...document.querySelectorAll("button, input:not([hidden]), select, canvas[tabindex]")].filter((one) =>
            !(one.ariaLabel || one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length))
            .map((one) => one.outerHTML)"""
    )
    assert nameless == []
    tab.page.locator(".pane canvas").first.focus()
    tab.page.keyboard.press("+")
    tab.until("Math.abs(explorer.camera.zoom - 1.3) < 1e-6")
    tab.page.keyboard.press("0")
    tab.until("explorer.camera.zoom === 1")
