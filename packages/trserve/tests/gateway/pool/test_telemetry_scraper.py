"""trserve.gateway.pool.telemetry_scraper over real sockets, against servers of all manners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from rbalance import Telemetry
from tests.support.gateway import metrics_pages as pages
from tests.support.gateway.scripted_upstream import Exchange, Script, scripted
from tests.support.gateway.upstream_answers import (
    always,
    dribble,
    hang,
    raw,
    response,
)
from trserve.gateway.pool.telemetry_scraper import TelemetryScraper
from trserve.gateway.pool.telemetry_text import TelemetryReading

VLLM = TelemetryReading(Telemetry(21, 3, 0.5), "vllm")

pytestmark = pytest.mark.asyncio


class Watched:
    """What the scraper tells of one instance: its news in order."""

    def __init__(self, scraper: TelemetryScraper, key: str, url: str) -> None:
        self.news: asyncio.Queue[TelemetryReading | str] = asyncio.Queue()
        scraper.watch(key, url, self.news.put_nowait, self.news.put_nowait)

    async def next(self) -> TelemetryReading | str:
        async with asyncio.timeout(20):
            return await self.news.get()


@asynccontextmanager
async def scraping(timeout_s: float = 5.0, **settings: float) -> AsyncIterator[TelemetryScraper]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        scraper = TelemetryScraper(session, interval_s=0.01, timeout_s=timeout_s, **settings)
        try:
            yield scraper
        finally:
            await scraper.close()


async def first_news(answer: Script, timeout_s: float = 5.0) -> TelemetryReading | str:
    async with scripted(answer) as server, scraping(timeout_s) as scraper:
        return await Watched(scraper, "a", server.url).next()


async def test_readings_come_again_and_again() -> None:
    async with scripted(always(200, pages.VLLM)) as server, scraping() as scraper:
        watched = Watched(scraper, "a", server.url + "/metrics")
        assert [await watched.next() for _ in range(5)] == [VLLM] * 5
        assert set(server.paths) == {"/metrics"}


async def test_the_page_is_asked_for_uncompressed_and_with_the_instances_own_headers() -> None:
    async with scripted(always(200, pages.VLLM)) as server, scraping() as scraper:
        news: asyncio.Queue[TelemetryReading | str] = asyncio.Queue()
        headers = {"authorization": "Bearer secret"}
        scraper.watch("a", server.url, news.put_nowait, news.put_nowait, headers)
        async with asyncio.timeout(20):
            assert await news.get() == VLLM
        sent = server.exchanges[0].headers
        assert sent["accept-encoding"] == "identity"
        assert sent["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (always(404), "metrics page: status 404"),
        (always(500), "metrics page: status 500"),
        (always(302), "metrics page: status 302"),
        (always(200), "metrics page without a known server's load"),
        (always(200, b"<html>hello</html>"), "metrics page without a known server's load"),
        (always(200, b"#" * 2_000_000), "metrics page above 1 MiB"),
    ],
)
async def test_an_answer_without_a_load_is_a_failure_that_says_so(answer: Script, why: str) -> None:
    assert await first_news(answer) == why


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff" * 100,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nvllm:num_requests_running 1\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello",
    ],
)
async def test_a_broken_answer_is_a_failure(data: bytes) -> None:
    news = await first_news(raw(data))
    assert isinstance(news, str)
    assert news.startswith("metrics page: ")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/metrics", "nonsense", "http://[::1", "http://"]
)
async def test_a_server_that_cannot_be_reached_is_a_failure(url: str) -> None:
    async with scraping() as scraper:
        news = await Watched(scraper, "a", url).next()
        assert isinstance(news, str)
        assert news.startswith("metrics page: ")


@pytest.mark.parametrize("answer", [hang, dribble])
async def test_a_page_that_does_not_end_is_a_failure_in_time(answer: Script) -> None:
    assert await first_news(answer, timeout_s=0.05) == "no whole metrics page within 0.05 s"


@pytest.mark.parametrize("answer", [hang, dribble])
async def test_a_slow_server_is_asked_once_at_a_time_and_holds_up_nobody(answer: Script) -> None:
    async with (
        scripted(answer) as slow,
        scripted(always(200, pages.VLLM)) as good,
        scraping(timeout_s=0.3) as scraper,
    ):
        stuck = [Watched(scraper, f"slow {n}", slow.url) for n in range(5)]
        watched = Watched(scraper, "good", good.url)
        for _ in range(10):
            assert await watched.next() == VLLM
        for _ in range(2):
            assert {str(await each.next()) for each in stuck} == {
                "no whole metrics page within 0.3 s"
            }
        assert slow.most_open <= len(stuck)
        assert good.most_open == 1


async def test_a_server_without_telemetry_is_asked_less_often() -> None:
    async with (
        scripted(always(404)) as bare,
        scripted(always(200, pages.VLLM)) as good,
        scraping() as scraper,
    ):
        without, watched = Watched(scraper, "a", bare.url), Watched(scraper, "b", good.url)
        assert await without.next() == "metrics page: status 404"
        for _ in range(20):
            await watched.next()
        assert len(bare.paths) == 1


async def test_a_later_success_recovers() -> None:
    answers = [response(404), b"", response(200, b"?"), response(503), response(200, pages.SGLANG)]
    left = iter(answers)

    async def answer(exchange: Exchange) -> None:
        await raw(next(left, answers[-1]))(exchange)

    async with scripted(answer) as server, scraping(unsuitable_s=0.02) as scraper:
        watched = Watched(scraper, "a", server.url)
        # A dropped connection is tried a second time by the client itself: the 503 may come first.
        news = [await watched.next()]
        while isinstance(news[-1], str):
            news.append(await watched.next())
        assert news[0] == "metrics page: status 404"
        assert news[-1] == TelemetryReading(Telemetry(5, 2, 0.28), "sglang")


async def test_nothing_is_told_after_unwatch_and_the_key_is_free_again() -> None:
    async with scripted(hang) as slow, scripted(always(200, pages.VLLM)) as good:
        async with scraping(timeout_s=0.2) as scraper:
            gone = Watched(scraper, "a", slow.url)
            with pytest.raises(ValueError, match="'a' is polled already"):
                Watched(scraper, "a", slow.url)
            scraper.unwatch("a")
            scraper.unwatch("never there")
            watched = Watched(scraper, "a", good.url)
            for _ in range(5):
                assert await watched.next() == VLLM
        assert gone.news.empty()


async def test_a_callback_that_raises_is_logged_and_ends_nothing(caplog) -> None:
    calls: asyncio.Queue[TelemetryReading] = asyncio.Queue()

    def on_reading(reading: TelemetryReading) -> None:
        calls.put_nowait(reading)
        raise RuntimeError("a bug")

    async with (
        scripted(always(200, pages.VLLM)) as server,
        scraping(after_a_bug_s=0.01) as scraper,
    ):
        scraper.watch("a", server.url, on_reading, pytest.fail)
        for _ in range(2):
            async with asyncio.timeout(20):
                await calls.get()
    assert "polling a" in caplog.text
    assert "a bug" in caplog.text
