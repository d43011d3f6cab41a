"""What people do on the page, and what they then see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

CONTRAST = Path(__file__).with_name("contrast.js").read_text("utf-8")
SLOW = 60_000  # milliseconds, for models on a busy machine


def connected(page: Page) -> None:
    """The page knows what server it is on."""
    expect(page.locator("#server")).to_have_class("pill good")


def send(page: Page, prompt: str, max_tokens: int | None = None) -> Locator:
    """Send by keyboard; the answer, which is complete or stopped."""
    connected(page)
    if max_tokens is not None:
        page.get_by_label("Most tokens").fill(str(max_tokens))
    page.get_by_label("Prompt", exact=True).fill(prompt)
    page.get_by_label("Prompt", exact=True).press("Control+Enter")
    answer = page.locator(".answer")
    ended(page, 1)
    return answer


def ended(page: Page, count: int) -> None:
    """So many answers have an end."""
    expect(page.locator(".answer > .row .pill.good")).to_have_count(count, timeout=SLOW)
    expect(page.locator("#stop")).to_be_disabled()


def text_of(answer: Locator) -> str:
    """The answer as it was written, white space and all."""
    text = answer.locator(".text").evaluate("node => node.textContent")
    assert isinstance(text, str)
    return text


def tokens_by(answer: Locator, model: int) -> int:
    return answer.locator(f".token.m{model}").count()


def table_of(page: Page, panel: str) -> list[list[str]]:
    """A live panel's numbers as its table has them, read at one moment, head first."""
    rows: Any = page.get_by_role("region", name=panel, exact=True).evaluate(
        """node => [...node.querySelectorAll("tr")].map(
            row => [...row.cells].map(cell => cell.textContent))"""
    )
    assert isinstance(rows, list)
    return rows


def fits(page: Page) -> bool:
    """Nothing has to be scrolled to sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def assert_readable(page: Page) -> None:
    """Every text has the contrast that WCAG's AA asks for."""
    checked, faint = page.evaluate(CONTRAST)
    assert checked > 60
    assert not faint, faint
