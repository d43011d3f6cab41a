from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.trserve.demo_server import Demo, demo_server
from tests.support.trserve.scripted_group import Reply


@pytest.fixture(scope="session")
def _shared_demo() -> Iterator[Demo]:
    with demo_server() as demo:
        yield demo


@pytest.fixture
def demo(_shared_demo: Demo) -> Demo:
    """One server for all tests that leave it as it was."""
    _shared_demo.group.reply = lambda request: Reply()
    _shared_demo.group.requests.clear()
    _shared_demo.group.aborts.clear()
    return _shared_demo


@pytest.fixture
def own_demo() -> Iterator[Demo]:
    """A server of the test's own."""
    with demo_server() as demo:
        yield demo
