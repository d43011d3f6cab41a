"""The page of a real `trserve gateway` in front of groups of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import expect

from tests.browser.page_steps import assert_readable, connected, ended, send, tokens_by
from tests.support.trserve.server_process import server_process

if TYPE_CHECKING:
    from playwright.sync_api import Page

    OpenPage = Callable[..., Page]

SIMULATED: dict[str, Any] = {
    "models": [
        {"name": "cheap", "quality": 0.4, "price_in": 0.06, "price_out": 0.06, "tpot_s": 0.01},
        {"name": "good", "quality": 0.7, "price_in": 0.38, "price_out": 0.4, "tpot_s": 0.04},
    ],
    "groups": [{"name": "sim", "preset": "profile-demo"}],
    "instances": [
        {"name": "cheap-1", "model": "cheap", "group": "sim"},
        {"name": "good-1", "model": "good", "group": "sim"},
    ],
}
DEMO_PAIR: dict[str, Any] = {
    "models": [
        {"name": "small", "quality": 0.41, "price_in": 0.06, "price_out": 0.06, "tpot_s": 0.011},
        {"name": "large", "quality": 0.62, "price_in": 0.15, "price_out": 0.15, "tpot_s": 0.03},
        {"name": "both", "predict_as": {"small": 0.3, "large": 0.7}, "tpot_s": 0.018}
        | {"price_in": 0.09, "price_out": 0.09},
    ],
    "groups": [{"name": "pair", "preset": "smol-rstitch"}],
    "instances": [
        {"name": "small-alone", "model": "small", "group": "pair", "only": "smollm2-slm8"},
        {"name": "token-routed", "model": "both", "group": "pair", "threshold": 0.3},
        {"name": "large-alone", "model": "large", "group": "pair", "only": "smollm2-135m-instruct"},
    ],
}


@contextmanager
def running_gateway(folder: Path, pool: dict[str, Any]) -> Iterator[str]:
    """Its URL."""
    file = folder / "pool.yaml"
    file.write_text(yaml.safe_dump(pool), "utf-8")
    command = ["-m", "trserve", "gateway", "--config", str(file), "--port", "0"]
    with server_process(command) as server:
        yield server.wait_for("ready").split("url=")[1].split()[0]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_gateway(tmp_path_factory.mktemp("gateway"), SIMULATED) as url:
        yield url


def test_weights_choose_and_the_request_follows(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    connected(page)
    expect(page.locator(".instances tbody tr")).to_have_count(2)
    for preset, instance in (("cost", "cheap-1"), ("quality", "good-1")):
        page.get_by_role("button", name=preset, exact=True).click()
        expect(page.locator(".decided b")).to_have_text(instance)
        answer = send(page, "Hi")
        expect(answer).to_contain_text(f"by {instance}")
    assert tokens_by(answer, 0) > 0
    expect(page.locator(".lane-head b")).to_have_text(["small", "large"])
    expect(page.get_by_role("region", name="Latency")).to_contain_text("The decision itself")
    assert_readable(page)


def test_a_threshold_goes_to_the_group(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    connected(page)
    slider = page.get_by_label("Threshold p")
    expect(slider).to_have_value("0.2")  # the group's own: both entries leave it as it is
    expect(page.locator("#threshold-meaning")).to_contain_text("take no notice of it")
    for key, writer in (("End", 1), ("Home", 0)):
        slider.press(key)
        with page.expect_request("**/v1/chat/completions") as asked:
            answer = send(page, "Hi", max_tokens=32)
        sent: Any = asked.value.post_data_json
        assert sent["tokenrouter"]["threshold"] == writer
        assert tokens_by(answer, writer) == answer.locator(".token").count() > 0
        expect(answer.locator(".legend")).to_contain_text(("small", "large")[writer])


def test_its_own_numbers_are_in_the_panels(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    connected(page)
    page.get_by_role("button", name="Side by side").click()
    ended(page, 3)
    expect(page.locator("#verdict")).to_be_hidden()  # three weights, not one model alone
    made = httpx.get(f"{url}/metrics").text
    assert 'trgateway_decisions_total{instance="good-1",model="good"}' in made
    chart = page.get_by_role("region", name="Decisions a second")
    expect(chart.get_by_role("listitem")).to_contain_text(["cheap-1", "good-1"])


@pytest.fixture
def demo_pair_url(tmp_path: Path) -> Iterator[str]:
    with running_gateway(tmp_path, DEMO_PAIR) as url:
        yield url


@pytest.mark.models
@pytest.mark.slow
def test_picture(demo_pair_url: str, open_page: OpenPage, shots: Path) -> None:
    """`playground-gateway.png` is the README's."""
    page = open_page(demo_pair_url, viewport={"width": 1280, "height": 1300})
    connected(page)
    page.get_by_role("button", name="quality", exact=True).click()
    expect(page.locator(".decided b")).to_have_text("token-routed")
    answer = send(page, "What is the capital of France?")
    expect(page.get_by_role("region", name="Latency")).to_contain_text("p99")
    expect(answer).to_contain_text("by token-routed")
    page.screenshot(path=shots / "playground-gateway.png")
