"""The playground page in a real browser, against real servers.

PLAYGROUND_SCREENSHOTS names a folder that pictures are kept in; else they go where pytest's do.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.fake_gateway import FakeGateway
from tests.browser.page_watch import PageWatch
from tests.support.trserve.demo_server import Demo, demo_server, serve_app
from tests.support.trserve.server_process import running_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    OpenPage = Callable[..., Page]

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
ENDLESS = ("--set", "models[0].eos_rate=0", "--set", "models[1].eos_rate=0")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium. Closed with each module: Playwright keeps its event loop running."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium here")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def allowed_complaints() -> list[str]:
    """Parts of console errors that the test provokes; any other fails it."""
    return []


@pytest.fixture
def open_page(browser: Browser, allowed_complaints: list[str]) -> Iterator[OpenPage]:
    """Opens a URL in a context of its own. It may ask its own origin only, and not complain."""
    contexts = []
    watch = PageWatch(allowed_complaints)

    def open_page(url: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        watch.watch(page, url)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not watch.complaints
    assert not watch.elsewhere


@pytest.fixture(scope="session")
def profile_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A token-routed server with simulated models whose answers end at their limit."""
    with running_server(tmp_path_factory.mktemp("profile"), *ENDLESS) as (_, url):
        yield url


@pytest.fixture(scope="session")
def smol_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo pair, routed by R-Stitch."""
    if importlib.util.find_spec("llama_cpp") is None:  # to import it is the server's business
        pytest.skip("llama-cpp-python is not installed")
    source = ("--preset", "smol-rstitch")
    with running_server(tmp_path_factory.mktemp("smol"), source=source) as (_, url):
        yield url


@pytest.fixture
def scripted() -> Iterator[Demo]:
    """A token-routed server whose models say what the test wants."""
    with demo_server() as demo:
        yield demo


@pytest.fixture
def locked() -> Iterator[Demo]:
    """A scripted server that wants the key `secret`."""
    with demo_server(api_key="secret") as demo:
        yield demo


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture
def gateway_url(gateway: FakeGateway) -> Iterator[str]:
    with serve_app(gateway.app()) as url:
        yield url


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go."""
    named = os.environ.get("PLAYGROUND_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
