"""The page of a token-routed server: streams by model, controls, panels, errors."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import expect

from tests.browser.page_steps import (
    assert_readable,
    connected,
    ended,
    fits,
    send,
    table_of,
    text_of,
    tokens_by,
)
from tests.support.trserve.demo_server import Demo
from tests.support.trserve.scripted_group import Reply
from tests.support.trserve.server_process import running_server
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

    OpenPage = Callable[..., Page]

TEXT = "Grüße, 世界! 😀\n <b>&amp;</b>"


@pytest.mark.parametrize("burst", [1, 3], ids=["token by token", "several at once"])
def test_the_text_is_the_servers_and_each_token_its_models(
    scripted: Demo, open_page: OpenPage, burst: int
) -> None:
    scripted.group.reply = lambda request: Reply(TEXT, burst=burst)
    page = open_page(scripted.url)
    answer = send(page, "Hi")
    assert text_of(answer) == TEXT
    count = len(TEXT.encode()) + 1  # and the end token
    assert answer.locator(".token").count() == count
    assert tokens_by(answer, 0) == (count + 1) // 2
    legend = answer.get_by_role("button", name="small")
    expect(legend).to_have_text(f"small {(count + 1) // 2} · 50 %")
    expect(answer.locator(".figures")).to_contain_text("hand-offs3")
    expect(page.locator(".lane-token")).to_have_count(count)
    expect(page.get_by_role("status").filter(has_text="complete")).to_contain_text("large")


def test_while_one_model_writes_the_other_is_pending(scripted: Demo, open_page: OpenPage) -> None:
    scripted.group.reply = lambda request: Reply("abcdef", hold_after=4)
    page = open_page(scripted.url)
    connected(page)
    page.get_by_label("Prompt", exact=True).fill("Hi")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".token")).to_have_count(4)
    states = page.locator(".lane-head .chip")
    expect(states).to_have_text(["pending", "writing"])
    expect(page.locator(".answer > .row .pill")).to_have_text("writing")
    scripted.group.go_on()
    ended(page, 1)
    expect(states).to_have_text(["done", "done"])


@pytest.mark.parametrize("by", ["Stop", "Escape"])
def test_stop_ends_the_request_on_the_server_too(
    scripted: Demo, open_page: OpenPage, by: str
) -> None:
    scripted.group.reply = lambda request: Reply("abc", hold_after=2)
    page = open_page(scripted.url)
    connected(page)
    page.get_by_label("Prompt", exact=True).fill("Hi")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".token")).to_have_count(2)
    if by == "Stop":
        page.get_by_role("button", name="Stop").click()
    else:
        page.keyboard.press("Escape")
    expect(page.locator(".answer > .row .pill")).to_have_text("stopped")
    until(lambda: scripted.group.aborts == ["abort"])
    expect(page.get_by_role("button", name="Send")).to_be_enabled()


def test_what_is_sent_is_what_the_controls_say(scripted: Demo, open_page: OpenPage) -> None:
    page = open_page(scripted.url)
    connected(page)
    page.get_by_label("Temperature").fill("0.5")
    send(page, "Hi", max_tokens=7)
    (request,) = scripted.group.requests
    assert bytes(request.prompt_ids) == b"user: Hi\nassistant:"
    assert request.max_tokens == 7
    assert request.sampling.temperature == 0.5
    expect(page.locator(".answer > .row .pill")).to_have_text("ended at the token limit")
    page.get_by_label("Most tokens").fill("0")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_label("Most tokens")).to_be_focused()  # the browser says what is wrong
    assert len(scripted.group.requests) == 1


def test_by_keyboard_alone(scripted: Demo, open_page: OpenPage) -> None:
    scripted.group.reply = lambda request: Reply("abcd")
    page = open_page(scripted.url)
    connected(page)

    def focus() -> Any:
        return page.evaluate(
            "() => { const node = document.activeElement, style = getComputedStyle(node);"
            " return {id: node.id, text: node.textContent.trim(), outline: style.outlineStyle}; }"
        )

    page.keyboard.press("Tab")
    assert focus()["text"] == "Skip to the prompt"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    seen = []
    for _ in range(30):
        here = focus()
        assert here["outline"] != "none", f"no visible focus on {here}"
        seen.append(here["id"])
        if here["id"] == "prompt":
            page.keyboard.type("Hi")
        if here["id"] == "send":
            break
        page.keyboard.press("Tab")
    assert seen[-1] == "send"
    page.keyboard.press("Enter")
    ended(page, 1)
    text = page.locator(".answer .text")
    for _ in range(30):
        page.keyboard.press("Tab")
        if text.evaluate("node => node === document.activeElement"):
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".inspector")).to_contain_text('Token 2 of 5: "b" by large, id 98')
    page.keyboard.press("End")
    expect(page.locator(".inspector")).to_contain_text("Token 5 of 5")


def test_one_models_tokens_alone(scripted: Demo, open_page: OpenPage) -> None:
    answer = send(open_page(scripted.url), "Hi")
    button = answer.get_by_role("button", name="large")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(answer.locator(".token.m1").first).to_have_css("opacity", "1")
    expect(answer.locator(".token.m0").first).not_to_have_css("opacity", "1")
    button.click()
    expect(answer.locator(".token.m0").first).to_have_css("opacity", "1")


def test_panels_show_the_servers_numbers(profile_url: str, open_page: OpenPage) -> None:
    page = open_page(profile_url)
    send(page, "Hi", max_tokens=64)
    expect(page.get_by_role("region", name="Latency")).to_contain_text("Whole request")
    head, *rows = table_of(page, "Tokens a second")
    assert head == ["", "now/s", "mean of the minute", "most"]
    assert [row[0] for row in rows] == ["small", "large"]
    assert all(float(row[3]) > 0 for row in rows)
    assert [row[0] for row in table_of(page, "Requests by state")] == ["model", "small", "large"]
    assert table_of(page, "B: batch threshold")[1][1] == "1"
    page.get_by_role("listitem").filter(has_text="small → large").wait_for()
    share = table_of(page, "p̂: chance of a hand-off")[1]
    assert share[0] == "small → large"
    assert 0 < int(share[1].removesuffix(" %")) < 60  # p = 0.2 in the preset
    latency = table_of(page, "Latency")
    assert latency[0][1:] == ["p50", "p90", "p99"]
    assert all(cell.endswith((" ms", " s", " µs")) for row in latency[1:] for cell in row[1:])
    for name in ("Tokens a second", "Hand-offs a second", "B: batch threshold"):
        chart = page.get_by_role("region", name=name).get_by_role("img")
        said = re.compile(rf"{name}, now: small [\d.]+(/s)?, large [\d.]+(/s)?")
        expect(chart).to_have_attribute("aria-label", said)


def test_nothing_is_asked_for_while_the_page_is_hidden(scripted: Demo, open_page: OpenPage) -> None:
    page = open_page(scripted.url)
    asked: list[str] = []
    page.clock.install()
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    expect(page.get_by_role("region", name="Tokens a second")).to_be_visible()
    turn = """hidden => {
        Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(turn, True)
    before = len(asked)
    page.clock.run_for(10_000)
    assert len(asked) == before
    with page.expect_response("**/metrics"):
        page.evaluate(turn, False)
        page.clock.run_for(1)


def test_dark_and_light(scripted: Demo, open_page: OpenPage, shots: Path) -> None:
    light = open_page(scripted.url, reduced_motion="reduce")
    dark = open_page(scripted.url, reduced_motion="reduce", color_scheme="dark")
    for page in (light, dark):
        connected(page)
    ground = "() => getComputedStyle(document.body).backgroundColor"
    in_light, in_dark = light.evaluate(ground), dark.evaluate(ground)
    assert in_light != in_dark
    pictures = [
        page.screenshot(path=shots / f"{name}.png")
        for name, page in (("light", light), ("dark", dark))
    ]
    assert pictures[0] != pictures[1]
    light.get_by_role("button", name="Dark", exact=True).click()
    assert light.evaluate(ground) == in_dark
    light.reload()
    connected(light)
    assert light.evaluate(ground) == in_dark
    light.get_by_role("button", name="Light", exact=True).click()
    assert light.evaluate(ground) == in_light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(scripted: Demo, open_page: OpenPage, scheme: str) -> None:
    page = open_page(scripted.url, color_scheme=scheme, reduced_motion="reduce")
    send(page, "Hi")
    page.locator("#key-menu summary").click()
    page.locator(".as-table summary").first.click()
    assert_readable(page)


@pytest.mark.parametrize("width", [320, 390, 768])
def test_no_scrolling_sideways(
    profile_url: str, open_page: OpenPage, shots: Path, width: int
) -> None:
    page = open_page(profile_url, viewport={"width": width, "height": 800})
    connected(page)
    assert fits(page)
    send(page, "Hi", max_tokens=64)
    expect(page.get_by_role("region", name="Latency")).to_contain_text("p99")
    assert fits(page)
    page.screenshot(path=shots / f"width-{width}.png", full_page=True)


def test_a_key_is_asked_for_and_kept_in_this_tab_only(
    locked: Demo, open_page: OpenPage, allowed_complaints: list[str]
) -> None:
    allowed_complaints.append("401")
    page = open_page(locked.url)
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("An API key is needed")
    expect(page.get_by_role("region", name="Tokens a second")).to_be_visible()
    key = page.get_by_label("API key of this server")
    key.fill("sécret→")
    key.press("Enter")
    assert key.evaluate("node => node.validity.patternMismatch")  # which the browser says
    key.fill("wrong")
    key.press("Enter")
    expect(notice).to_contain_text("Wrong API key")
    key.fill("secret")
    key.press("Enter")
    expect(notice).to_be_hidden()
    with page.expect_request("**/v1/chat/completions") as asked:
        send(page, "Hi")
    assert asked.value.headers["authorization"] == "Bearer secret"
    assert page.evaluate("JSON.stringify([localStorage, document.cookie])") == '[{},""]'
    page.reload()
    connected(page)
    other = open_page(locked.url)
    expect(other.get_by_role("alert")).to_contain_text("An API key is needed")


def test_a_full_queue(
    scripted: Demo, open_page: OpenPage, allowed_complaints: list[str], shots: Path
) -> None:
    allowed_complaints.append("429")
    scripted.group.queue_limit = 0
    page = open_page(scripted.url)
    connected(page)
    page.get_by_label("Prompt", exact=True).fill("Hi")
    page.get_by_role("button", name="Send").click()
    problem = page.locator(".problem")
    expect(problem).to_contain_text("Too many requests at the moment")
    expect(problem).to_contain_text("It asks to wait 1 second.")
    page.screenshot(path=shots / "full-queue.png")
    scripted.group.queue_limit = 100
    problem.get_by_role("button", name="Try again").click()
    ended(page, 1)
    assert text_of(page.locator(".answer"))


def test_a_failure_on_the_way(scripted: Demo, open_page: OpenPage) -> None:
    scripted.group.reply = lambda request: Reply("abcdef", hold_after=3)
    page = open_page(scripted.url)
    connected(page)
    page.get_by_label("Prompt", exact=True).fill("Hi")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".token")).to_have_count(3)
    scripted.group.end_all("error", "the models died")
    expect(page.locator(".problem")).to_contain_text("The server failed")
    assert text_of(page.locator(".answer")) == "abc"  # what came before stays


def test_a_server_that_goes(
    tmp_path: Path, open_page: OpenPage, allowed_complaints: list[str], shots: Path
) -> None:
    allowed_complaints.append("ERR_CONNECTION_REFUSED")
    with running_server(tmp_path) as (server, url):
        page = open_page(url)
        connected(page)
        server.signal(signal.SIGTERM)
        server.finish()
        notice = page.get_by_role("alert")
        expect(notice).to_contain_text("The server does not answer")
        expect(page.locator("#live-state")).to_contain_text("no news")
        page.screenshot(path=shots / "server-gone.png")
        port = httpx.URL(url).port
        with running_server(tmp_path, "--port", str(port)):
            expect(notice).to_be_hidden()
            connected(page)
            send(page, "Hi", max_tokens=4)
