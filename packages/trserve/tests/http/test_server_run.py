"""A server's run from the taken port to the exit status, with signals and requests made up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import structlog
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from tests.support.trserve.process_state import clear_variables, kept_logging
from tests.support.waiting import until
from trserve.http.server_run import STOPPED, STOPPED_AT_ONCE, Served, ServerRun, begin_run
from trserve.settings.server_settings import HttpSettings


class Backend:
    """What is served; the first signal comes as soon as it is ready, the rest is up to the test."""

    def __init__(self, drain: Callable[[Backend], Awaitable[bool]]) -> None:
        self.stops: Any = SimpleNamespace(first=asyncio.Event(), second=asyncio.Event())
        self.asked_for_running = 0
        self.reminded = asyncio.Event()
        self.stopped = False
        self.url = ""
        self._drain = drain

    def running(self) -> int:
        self.asked_for_running += 1
        if self.asked_for_running > 1:
            self.reminded.set()
        return 7

    async def stop(self) -> None:
        self.stopped = True

    def served(self, *, answers_while_draining: bool = True) -> Served:
        return Served(
            app=Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))]),
            running=self.running,
            drain=lambda limit_s: self._drain(self),
            stop=self.stop,
            on_ready=self.stops.first.set,
            answers_while_draining=answers_while_draining,
            access_log=False,
        )


@pytest.fixture
def run(monkeypatch, tmp_path) -> Iterator[ServerRun]:
    clear_variables(monkeypatch)
    settings = HttpSettings.resolve({"port": 0, "ready_file": tmp_path / "ready.json"}, {})
    with kept_logging(), begin_run(settings, structlog.get_logger("test")) as run:
        structlog.reset_defaults()  # where capture_logs looks
        yield run


def served(run: ServerRun, drain: Callable[[Backend], Awaitable[bool]], **how: Any) -> Any:
    """Serve and drain: the exit status, the backend, and events of the log with their fields."""

    async def serve() -> tuple[int, Backend]:
        backend = Backend(drain)
        backend.url = run.url
        return await run.serve(backend.served(**how), backend.stops), backend

    with capture_logs() as lines:
        status, backend = asyncio.run(serve())
    return status, backend, {line["event"]: line for line in lines}


async def at_once(backend: Backend) -> bool:
    return True


def test_requests_end_in_time(run: ServerRun) -> None:
    status, backend, events = served(run, at_once)
    assert (status, backend.stopped) == (STOPPED, False)
    assert list(events) == ["stopping", "drained"]
    assert (events["stopping"]["running"], events["stopping"]["limit_s"]) == (7, 30.0)


def test_requests_that_do_not_end_in_time_are_ended(run: ServerRun) -> None:
    async def too_long(backend: Backend) -> bool:
        return False

    status, backend, events = served(run, too_long)
    assert (status, backend.stopped) == (STOPPED, True)
    assert events["drain timeout"]["ended"] == 7


def test_a_second_signal_ends_them_at_once(run: ServerRun) -> None:
    async def until_the_second(backend: Backend) -> bool:
        backend.stops.second.set()
        return await asyncio.Future()

    status, backend, events = served(run, until_the_second)
    assert (status, backend.stopped) == (STOPPED_AT_ONCE, True)
    assert events["stopped at once"]["ended"] == 7


def test_a_long_drain_is_mentioned(run: ServerRun) -> None:
    async def until_reminded(backend: Backend) -> bool:
        return await backend.reminded.wait()

    status, _, events = served(replace(run, remind_s=0.001), until_reminded)
    assert status == STOPPED
    assert events["still running"]["running"] == 7


@pytest.mark.parametrize("answers", [True, False])
def test_who_is_answered_while_it_drains(run: ServerRun, answers: bool) -> None:
    def refused(url: str) -> bool:
        try:
            return httpx.get(url).text != "here"
        except httpx.ConnectError:
            return True

    async def asking(backend: Backend) -> bool:
        if answers:
            assert not await asyncio.to_thread(refused, backend.url)
        else:
            await asyncio.to_thread(until, lambda: refused(backend.url))
        return True

    assert served(run, asking, answers_while_draining=answers)[0] == STOPPED


def test_what_ends_a_server_by_itself_is_raised(run: ServerRun, tmp_path) -> None:
    def fails() -> None:
        assert (tmp_path / "ready.json").exists()
        raise RuntimeError("no")

    async def serve() -> int:
        backend = Backend(at_once)
        return await run.serve(replace(backend.served(), on_ready=fails), backend.stops)

    with pytest.raises(RuntimeError, match="no"):
        asyncio.run(serve())
