"""The page with real models: what it shows is what the server says, and the slider moves it."""

from __future__ import annotations

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
    text_of,
    tokens_by,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

    OpenPage = Callable[..., Page]

pytestmark = [pytest.mark.models, pytest.mark.slow]

PROMPT = "What is the capital of France?"
SMALL, LARGE = "smollm2-slm8", "smollm2-135m-instruct"


def asked(url: str, **extension: Any) -> dict[str, Any]:
    """What the server itself answers to what the page sends."""
    body = {
        "model": "smol-rstitch",
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": 96,
        "temperature": 0,
        "tokenrouter": {"model_per_token": True, **extension},
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


def test_tokens_of_both_models(smol_url: str, open_page: OpenPage) -> None:
    expected = asked(smol_url)
    answer = send(open_page(smol_url), PROMPT)
    assert text_of(answer) == expected["message"]["content"]
    makers = expected["tokenrouter"]["models"]
    assert {0, 1} == set(makers)
    for model, name in enumerate((SMALL, LARGE)):
        assert tokens_by(answer, model) == makers.count(model)
        expect(answer.get_by_role("button", name=name)).to_contain_text(str(makers.count(model)))


def test_the_slider_moves_the_large_models_share(smol_url: str, open_page: OpenPage) -> None:
    page = open_page(smol_url)
    shares = {}
    for key in ("Home", "ArrowRight", "End"):  # "ArrowRight": from Home on, a hundredth
        page.get_by_label("Threshold tau").press(key)
        own = float(page.get_by_label("Threshold tau").input_value())
        answer = send(page, PROMPT)
        makers = asked(smol_url, threshold=own)["tokenrouter"]["models"]
        assert tokens_by(answer, 1) == makers.count(1)
        shares[own] = makers.count(1) / len(makers)
    assert shares[0.0] > shares[1.0] == 0
    page.get_by_role("button", name="the server’s value").click()
    assert tokens_by(send(page, PROMPT), 1) == asked(smol_url)["tokenrouter"]["models"].count(1)


@pytest.mark.parametrize("pace", ["one after another: fair speeds", "all at once"])
def test_side_by_side(smol_url: str, open_page: OpenPage, pace: str) -> None:
    page = open_page(smol_url)
    connected(page)
    page.get_by_label("Side by side").select_option(label=pace)
    page.get_by_label("Prompt", exact=True).fill(PROMPT)
    page.get_by_role("button", name="Side by side").click()
    ended(page, 3)
    routed, small, large = (page.get_by_role("article").nth(at) for at in range(3))
    for column in (routed, small, large):
        expect(column.locator(".figures")).to_contain_text("tokens/s")
    assert text_of(routed) == asked(smol_url)["message"]["content"]
    for column, name, other in ((small, SMALL, 1), (large, LARGE, 0)):
        assert text_of(column) == asked(smol_url, only=name)["message"]["content"]
        assert tokens_by(column, other) == 0
    expect(page.locator("#verdict")).to_contain_text(f"times as fast as {LARGE} alone")
    expect(page.locator("#verdict")).to_contain_text("in the same order")


def test_pictures(smol_url: str, open_page: OpenPage, shots: Path) -> None:
    """`playground.png` is the README's."""
    for name, scheme, width in (
        ("playground", "light", 1280),
        ("playground-dark", "dark", 1280),
        ("playground-phone", "light", 390),
    ):
        page = open_page(smol_url, color_scheme=scheme, viewport={"width": width, "height": 1180})
        send(page, PROMPT)
        page.get_by_role("region", name="Latency").get_by_text("Whole request").first.wait_for()
        page.screenshot(path=shots / f"{name}.png")
        assert_readable(page)
        assert fits(page)
    page.get_by_role("button", name="Side by side").click()
    ended(page, 3)
    assert fits(page)
    page.set_viewport_size({"width": 1280, "height": 1180})
    page.screenshot(path=shots / "side-by-side.png", full_page=True)
