"""health_checker and its counting: over real sockets, with servers that change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gateway.scripted_upstream import Exchange, Script, scripted
from tests.support.gateway.upstream_answers import always, hang, raw
from trserve.gateway.pool.health_checker import HealthChecker
from trserve.gateway.pool.health_count import HealthCount


class Watched:
    """What the checker tells of one instance."""

    def __init__(self, checker: HealthChecker, key: str, url: str, path: str = "/health") -> None:
        self.news: asyncio.Queue[tuple[bool, str]] = asyncio.Queue()
        checker.watch(key, url, lambda *news: self.news.put_nowait(news), path)

    async def next(self) -> tuple[bool, str]:
        async with asyncio.timeout(20):
            return await self.news.get()


@asynccontextmanager
async def checking(timeout_s: float = 5.0) -> AsyncIterator[HealthChecker]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        checker = HealthChecker(session, interval_s=0.01, timeout_s=timeout_s)
        try:
            yield checker
        finally:
            await checker.close()


async def verdict(answer: Script, timeout_s: float = 5.0) -> tuple[bool, str]:
    async with scripted(answer) as server, checking(timeout_s) as checker:
        return await Watched(checker, "a", server.url).next()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "timeout_s", "expected"),
    [
        (always(200), 5, (True, "/health: status 200")),
        (always(204), 5, (True, "/health: status 204")),
        (always(200, b"x" * 5_000_000), 5, (True, "/health: status 200")),
        (always(503), 5, (False, "/health: status 503")),
        (always(302), 5, (False, "/health: status 302")),
        (always(404), 5, (False, "/v1/models: status 404")),
        (raw(b"\x00nonsense\r\n\r\n"), 5, (False, "/health: ")),
        (raw(b""), 5, (False, "/health: ")),
        (hang, 0.05, (False, "/health: no answer within 0.05 s")),
    ],
)
async def test_the_first_verdict(
    answer: Script, timeout_s: float, expected: tuple[bool, str]
) -> None:
    healthy, why = await verdict(answer, timeout_s)
    assert healthy == expected[0]
    assert why.startswith(expected[1])


@pytest.mark.asyncio
async def test_a_server_without_the_path_is_asked_for_its_models() -> None:
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def answer(exchange: Exchange) -> None:
        asked.put_nowait(exchange.path)
        await always(200 if exchange.path == "/v1/models" else 404)(exchange)

    async with scripted(answer) as server, checking() as checker:
        watched = Watched(checker, "a", server.url, "/alive")
        assert await watched.next() == (True, "/v1/models: status 200")
        async with asyncio.timeout(20):
            paths = [await asked.get() for _ in range(6)]
    assert paths == ["/alive", "/v1/models"] * 3


@pytest.mark.asyncio
async def test_a_path_that_was_not_there_once_is_asked_again() -> None:
    script = iter([404])

    async def answer(exchange: Exchange) -> None:
        found = exchange.path == "/v1/models"
        await always(200 if found else next(script, 503))(exchange)

    async with scripted(answer) as server, checking() as checker:
        watched = Watched(checker, "a", server.url)
        assert await watched.next() == (True, "/v1/models: status 200")
        assert await watched.next() == (False, "/health: status 503")


@pytest.mark.asyncio
async def test_one_failure_is_forgiven_two_are_not_and_one_success_recovers() -> None:
    script = iter([200, 503, 200, 503, 500, 500, 500, 200])
    asked: list[int] = []

    async def answer(exchange: Exchange) -> None:
        asked.append(next(script, 200))
        await always(asked[-1])(exchange)

    async with scripted(answer) as server, checking() as checker:
        watched = Watched(checker, "a", server.url)
        assert await watched.next() == (True, "/health: status 200")
        assert await watched.next() == (False, "/health: status 500")
        assert await watched.next() == (True, "/health: status 200")
        assert asked[:8] == [200, 503, 200, 503, 500, 500, 500, 200]


@pytest.mark.asyncio
async def test_a_hung_server_holds_up_nobody_and_unwatch_ends_it() -> None:
    async with (
        scripted(hang) as slow,
        scripted(always(200)) as good,
        checking(timeout_s=0.2) as checker,
    ):
        stuck = Watched(checker, "slow", slow.url)
        assert await Watched(checker, "good", good.url).next() == (True, "/health: status 200")
        assert stuck.news.empty()
        assert await stuck.next() == (False, "/health: no answer within 0.2 s")
        checker.unwatch("slow")
        assert slow.most_open == 1


@given(checks=st.lists(st.booleans(), max_size=60), rise=st.integers(1, 4), fall=st.integers(1, 4))
def test_a_change_needs_so_many_alike_in_a_row(checks: list[bool], rise: int, fall: int) -> None:
    count = HealthCount(rise, fall)
    for at, succeeded in enumerate(checks):
        before = count.healthy
        changed = count.checked(succeeded)
        needed = rise if succeeded else fall
        recent = checks[max(0, at + 1 - needed) : at + 1]
        assert changed == (before is not succeeded and recent == [succeeded] * needed)
        assert count.healthy is (succeeded if changed else before)


def test_nothing_is_known_before_enough_checks() -> None:
    count = HealthCount(rise=2, fall=2)
    assert count.healthy is None
    assert feed(count, [True, False, True]) == [None, None, None]
    assert feed(count, [True]) == [True]


def feed(count: HealthCount, checks: Iterable[bool]) -> list[bool | None]:
    found = []
    for succeeded in checks:
        count.checked(succeeded)
        found.append(count.healthy)
    return found
