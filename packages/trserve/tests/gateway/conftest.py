from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway.running_gateway import RunningGateway, pool, running_gateway
from tests.support.gateway.scripted_upstream import (
    Script,
    ScriptedUpstream,
    UpstreamThread,
    upstream_thread,
)
from tests.support.gateway.upstream_answers import always, polite

Upstreams = Callable[..., list[ScriptedUpstream]]
Gateways = Callable[..., RunningGateway]


@pytest.fixture(scope="session")
def upstream_loop() -> Iterator[UpstreamThread]:
    """Where all scripted upstreams of the session run."""
    with upstream_thread() as thread:
        yield thread


@pytest.fixture
def upstreams(upstream_loop: UpstreamThread) -> Iterator[Upstreams]:
    """`upstreams(SCRIPT, …)`: healthy servers with these scripts, or so many polite ones."""
    started: list[ScriptedUpstream] = []

    def start(*answers: Script, count: int = 0) -> list[ScriptedUpstream]:
        new = [
            upstream_loop.start(
                ScriptedUpstream(answer, {"/health": always(200), "/metrics": always(404)})
            )
            for answer in (*answers, *[polite] * count)
        ]
        started.extend(new)
        return new

    yield start
    for server in started:
        if server.listening:
            upstream_loop.stop(server)


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Gateways]:
    """`gateways(UPSTREAMS, section=…)`: one in front of them; or `gateways(CONFIGURATION)`.

    read_on_s: how long it waits for the end of an answer that is complete.
    """
    with ExitStack() as stack:
        folders = iter(range(100))

        def start(
            given: list[ScriptedUpstream] | Mapping[str, Any],
            *,
            read_on_s: float = 1.0,
            **sections: Any,
        ) -> RunningGateway:
            folder = tmp_path / f"gateway-{next(folders)}"
            folder.mkdir()
            config = given if isinstance(given, Mapping) else pool(given, **sections)
            return stack.enter_context(running_gateway(folder, config, read_on_s))

        yield start
