"""The page of a gateway: weights, decisions, instances; answers of groups and of plain servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import expect

from tests.browser.fake_gateway import HOLD, MAKERS, POOL, THINK, WORDS, FakeGateway
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
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

    OpenPage = Callable[..., Page]


def chosen(page: Page) -> str:
    """The instance that the decision names."""
    return page.locator(".decided b").inner_text()


def test_weights_change_the_decision_before_anything_is_sent(
    gateway: FakeGateway, gateway_url: str, open_page: OpenPage
) -> None:
    page = open_page(gateway_url)
    decided = page.locator(".decided")
    expect(decided).to_contain_text("pair (qwen-pair) would take it now: best score")
    page.get_by_role("button", name="quality", exact=True).click()
    expect(decided).to_contain_text("large-a")
    rows = page.locator(".candidates tbody tr")
    expect(rows).to_have_count(len(POOL))
    expect(rows.first).to_contain_text("large-a chosen")
    expect(rows.last).to_contain_text("large-b")
    expect(rows.last).to_contain_text("not asked: unhealthy")
    page.get_by_label("cost", exact=True).press("End")
    expect(decided).to_contain_text("small-a")
    for goal, share in (("cost", "100 %"), ("quality", "0 %"), ("latency", "0 %")):
        expect(page.locator(f".goal-{goal} output")).to_have_text(share)
    assert not gateway.bodies


def test_a_request_goes_where_its_headers_say(
    gateway: FakeGateway, gateway_url: str, open_page: OpenPage
) -> None:
    page = open_page(gateway_url)
    connected(page)
    page.get_by_role("button", name="quality", exact=True).click()
    answer = send(page, "Hi")
    assert text_of(answer) == "".join(WORDS)
    expect(page.locator("#decision")).to_contain_text(
        "The last request went to large-a: qwen-32b, best score."
    )
    expect(answer).to_contain_text("by large-a · qwen-32b")
    expect(answer.locator(".legend")).to_have_text("qwen-32b")
    assert tokens_by(answer, 2) == len(WORDS)  # the third model of the pool, in its colour
    (body,) = gateway.bodies
    weights = {"quality": 0.8, "cost": 0.1, "latency": 0.1}
    assert body["routebalance"] == {"weights": weights, "explain": True}
    assert body["model"] == "auto"
    assert "logprobs" not in body  # which few servers offer


def test_reasoning_is_shown_and_told_from_the_answer(gateway_url: str, open_page: OpenPage) -> None:
    page = open_page(gateway_url)
    connected(page)
    page.get_by_label("Model", exact=True).select_option("qwen-32b")
    answer = send(page, THINK)
    assert text_of(answer) == "".join(WORDS)
    expect(answer.locator(".token.thought")).to_have_text(WORDS[:2])
    expect(answer.locator(".token").nth(1)).to_have_css("font-style", "italic")
    expect(answer.locator(".token").nth(2)).to_have_css("font-style", "normal")
    assert_readable(page)


def test_a_group_behind_it_keeps_its_colours(gateway_url: str, open_page: OpenPage) -> None:
    page = open_page(gateway_url)
    connected(page)
    expect(page.locator("#lanes")).to_be_hidden()
    page.get_by_label("Model", exact=True).select_option("qwen-pair")
    answer = send(page, "Hi")
    assert tokens_by(answer, 0) == MAKERS.count(0)
    assert tokens_by(answer, 1) == MAKERS.count(1)
    expect(answer.get_by_role("button", name="qwen-l")).to_contain_text("33 %")
    expect(page.locator("#lanes")).to_be_visible()
    expect(page.locator(".lane-head b")).to_have_text(["qwen-s", "qwen-l"])


def test_a_threshold_is_sent_once_it_is_moved(
    gateway: FakeGateway, gateway_url: str, open_page: OpenPage
) -> None:
    """Only for a name that has one; which value holds until then differs between its instances."""
    page = open_page(gateway_url)
    connected(page)
    slider = page.get_by_label("Threshold tau")
    expect(slider).to_be_hidden()
    page.get_by_label("Model", exact=True).select_option("qwen-pair")
    output = page.locator("#threshold output")
    expect(output).to_have_text("differs")
    expect(page.get_by_role("button", name="Side by side")).to_be_hidden()
    send(page, "Hi")
    slider.press("Home")
    expect(output).to_have_text("0")
    send(page, "Hi")
    for width in (320, 768, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(page)
    page.get_by_role("button", name="each instance’s own").click()
    expect(output).to_have_text("differs")
    send(page, "Hi")
    slider.press("End")
    page.get_by_label("Model", exact=True).select_option("auto")
    expect(slider).to_be_hidden()
    send(page, "Hi")
    sent = [body["tokenrouter"].get("threshold") for body in gateway.bodies]
    assert sent == [None, 0, None, None]


def test_an_upstream_that_refuses_the_extension_is_asked_without(
    gateway: FakeGateway, gateway_url: str, open_page: OpenPage, allowed_complaints: list[str]
) -> None:
    allowed_complaints.append("400")
    gateway.refuse_extension = True
    answer = send(open_page(gateway_url), "Hi")
    assert text_of(answer) == "".join(WORDS)
    assert ["tokenrouter" in body for body in gateway.bodies] == [True, False]


def test_side_by_side_under_three_weights(gateway_url: str, open_page: OpenPage) -> None:
    page = open_page(gateway_url)
    connected(page)
    page.get_by_label("Prompt", exact=True).fill("Hi")
    page.get_by_role("button", name="Side by side").click()
    ended(page, 3)
    columns = [page.get_by_role("article").nth(at) for at in range(3)]
    for column, instance in zip(columns, ("large-a", "small-a", "small-a"), strict=True):
        expect(column).to_contain_text(f"by {instance}")
    expect(page.locator("#verdict")).to_be_hidden()


def test_stop(gateway: FakeGateway, gateway_url: str, open_page: OpenPage) -> None:
    page = open_page(gateway_url)
    connected(page)
    page.get_by_label("Prompt", exact=True).fill(HOLD)
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".token")).to_have_count(3)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".answer > .row .pill")).to_have_text("stopped")
    until(gateway.left.is_set)


def test_instances_and_decisions(gateway_url: str, open_page: OpenPage) -> None:
    page = open_page(gateway_url)
    connected(page)
    rows = page.locator(".instances tbody tr")
    expect(rows).to_have_count(len(POOL))
    for at, instance in enumerate(POOL):
        cells = [cell.inner_text() for cell in rows.nth(at).locator("th, td").all()]
        assert cells[:3] == [instance.name, instance.model, "up" if instance.up else "down"]
        assert cells[4:] == [str(3 + at), str(at), str(210 * at), f"{120 * (at + 1)} ms"]
    send(page, "Hi")
    expect(page.get_by_role("region", name="Latency")).to_contain_text("The decision itself")
    made = {row[0]: row[3] for row in table_of(page, "Decisions a second")}
    assert float(made["pair"]) > 0
    assert made["large-b"] == "0"
    focus = "() => document.activeElement.getAttribute('aria-label')"
    page.get_by_role("group", name="Instances, a table").focus()
    with page.expect_response("**/metrics"):
        pass
    with page.expect_response("**/metrics"):  # so the turn of the one before is over
        pass
    assert page.evaluate(focus) == "Instances, a table"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_and_fits(
    gateway_url: str, open_page: OpenPage, scheme: str, shots: Path
) -> None:
    page = open_page(gateway_url, color_scheme=scheme, viewport={"width": 1280, "height": 1120})
    send(page, "Explain why the sky is blue.")
    expect(page.get_by_role("region", name="Latency")).to_contain_text("p99")
    expect(page.locator(".candidates")).to_be_visible()
    page.screenshot(path=shots / f"gateway-{scheme}.png")
    assert_readable(page)
    for width in (320, 768, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(page)
    page.set_viewport_size({"width": 390, "height": 900})
    page.screenshot(path=shots / f"gateway-phone-{scheme}.png", full_page=True)
