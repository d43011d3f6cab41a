"""What the page does where something goes wrong on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import expect

from tests.browser.fake_gateway import CUT, DIE, JUNK, FakeGateway
from tests.browser.page_steps import connected, send
from tests.support.trserve.demo_server import Demo

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    OpenPage = Callable[..., Page]

STATUS = ".actions .status"
BLOCK_STORAGE = """
    for (const name of ["localStorage", "sessionStorage"]) {
        const get = () => { throw new DOMException("access is denied", "SecurityError"); };
        Object.defineProperty(window, name, { get });
    }
"""
POLL = "document.dispatchEvent(new Event('visibilitychange'))"  # at once
TIME_UP = """
    const timers = [];
    AbortSignal.timeout = () => {
        const timer = new AbortController();
        timers.push(timer);
        return timer.signal;
    };
    window.timeUp = () => {
        for (const timer of timers) timer.abort(new DOMException("time is up", "TimeoutError"));
    };
"""
"""Timeouts of requests end when the test calls `timeUp()`, not before."""


def test_no_verdict_where_the_model_alone_failed(
    scripted: Demo, open_page: OpenPage, allowed_complaints: list[str]
) -> None:
    allowed_complaints.append("503")

    def refuse_the_large_one(route: Route) -> None:
        if '"only":"large"' in (route.request.post_data or ""):
            route.fulfill(status=503, json={"error": {"message": "it is down"}})
        else:
            route.fallback()

    page = open_page(scripted.url)
    connected(page)
    page.route("**/v1/chat/completions", refuse_the_large_one)
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator(STATUS)).to_have_text("Failed, see below.")
    expect(page.locator(".answer .token")).not_to_have_count(0)
    expect(page.locator(".problem:visible")).to_contain_text("it is down")
    expect(page.locator("#verdict")).to_be_hidden()


def test_an_answer_that_breaks_off_is_not_complete(
    gateway_url: str, open_page: OpenPage, allowed_complaints: list[str]
) -> None:
    allowed_complaints.append("ERR_INCOMPLETE_CHUNKED_ENCODING")
    page = open_page(gateway_url)
    connected(page)
    for prompt, why in ((CUT, "before it was complete"), (DIE, "to its end"), (JUNK, "to its end")):
        page.get_by_label("Prompt", exact=True).fill(prompt)
        page.get_by_role("button", name="Send").click()
        problem = page.locator(".problem")
        expect(problem).to_contain_text("The answer broke off")
        expect(problem).to_contain_text(why)
        expect(page.locator(".answer > .row .pill")).to_have_text("failed")


def test_nothing_is_compared_where_there_is_no_button_for_it(
    gateway_url: str, open_page: OpenPage, allowed_complaints: list[str]
) -> None:
    page = open_page(gateway_url)
    connected(page)
    page.get_by_label("Model", exact=True).select_option("qwen-pair")
    send(page, "Hi")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator(".answer .token")).not_to_have_count(0)
    allowed_complaints.append("503")
    page.route("**/v1/models", lambda route: route.fulfill(status=503))
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("No model is available")
    page.keyboard.press("Control+Shift+Enter")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".answer")).to_have_count(0)


def test_a_server_that_hangs_and_comes_back(scripted: Demo, open_page: OpenPage) -> None:
    """What the user set and saw stays."""
    page = open_page(scripted.url)
    page.add_init_script(TIME_UP)
    page.reload()
    send(page, "Hi")
    slider = page.get_by_label("Threshold p")
    slider.press("End")
    page.route("**/metrics", lambda route: None)
    with page.expect_request("**/metrics"):
        page.evaluate(POLL)
    page.evaluate("timeUp()")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("The server does not answer")
    expect(page.locator("#live-state")).to_contain_text("no news")
    page.unroute("**/metrics")
    page.evaluate("timeUp()")  # of a poll that began in between
    page.evaluate(POLL)
    expect(notice).to_be_hidden()
    connected(page)
    expect(slider).to_have_value("1")
    expect(page.locator("#lanes")).to_contain_text("Live:")  # not the example
    send(page, "Hi")


def test_models_that_come_while_the_page_is_open(
    gateway: FakeGateway, gateway_url: str, open_page: OpenPage
) -> None:
    page = open_page(gateway_url)
    connected(page)
    select = page.get_by_label("Model", exact=True)
    select.select_option("qwen-pair")
    send(page, "Hi")
    page.get_by_label("Threshold tau").press("Home")
    gateway.ids.insert(1, "new")
    select.focus()
    expect(select.locator("option")).to_have_text(gateway.ids)
    expect(select).to_have_value("qwen-pair")
    expect(page.locator("#threshold output")).to_have_text("0")
    expect(page.locator("#lanes")).to_be_visible()
    gateway.ids.remove("qwen-pair")
    select.blur()
    select.focus()
    expect(select).to_have_value("auto")
    expect(page.locator("#threshold")).to_be_hidden()


def test_a_decision_that_comes_too_late_is_not_shown(gateway_url: str, open_page: OpenPage) -> None:
    page = open_page(gateway_url)
    decided = page.locator(".decided")
    expect(decided).to_contain_text("pair")
    page.route("**/v1/route", lambda route: None, times=1)
    with page.expect_request("**/v1/route"):
        page.get_by_role("button", name="quality", exact=True).click()
    with page.expect_event("requestfailed", lambda asked: asked.url.endswith("/v1/route")):
        page.get_by_role("button", name="cost", exact=True).click()
    expect(decided).to_contain_text("small-a")


def test_where_the_browser_keeps_nothing(
    locked: Demo, open_page: OpenPage, allowed_complaints: list[str]
) -> None:
    allowed_complaints.append("401")
    page = open_page(locked.url, color_scheme="light")
    page.add_init_script(BLOCK_STORAGE)
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("An API key is needed")
    page.get_by_label("API key of this server").fill("secret")
    page.get_by_role("button", name="Use it").click()
    send(page, "Hi")
    page.get_by_role("button", name="Dark", exact=True).click()
    expect(page.get_by_role("button", name="Light", exact=True)).to_be_visible()
