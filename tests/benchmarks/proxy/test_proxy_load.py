"""The load on proxies: what its clients see of servers that behave, or don't."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from benchmarks.proxy.load import RepliesSeen, closed_loop, in_turns, open_loop
from benchmarks.proxy.prompts import requests
from benchmarks.proxy.proxy_client import ProxyClient, ProxyReply
from benchmarks.proxy.streams import hold_streams
from benchmarks.proxy.upstreams import Upstreams, mock_upstreams

STREAM = b"Content-Type: text/event-stream\r\n"
DONE = b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"


@pytest.fixture(scope="module")
def upstreams() -> Iterator[Upstreams]:
    with mock_upstreams(2) as found:
        yield found


def reply(body: bytes, head: bytes = b"", status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, head, len(body), body)


class ScriptedServer:
    """Answers each request with the next of `answers`, given in pieces; None: hangs up."""

    def __init__(self, *answers: list[bytes] | None) -> None:
        self.connections = 0
        self._answers = iter(answers)
        self._serving: list[asyncio.Task[None]] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        handler = asyncio.current_task()
        assert handler is not None
        self._serving.append(handler)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                pieces = next(self._answers)
                if pieces is None:
                    break
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.001)  # pieces are to arrive apart
                if b"Connection: close" in pieces[0]:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    async def asked(self, times: int, *, streams: bool = False) -> list[ProxyReply]:
        server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        replies: list[ProxyReply] = []
        async with server:
            answered: asyncio.Queue[ProxyReply] = asyncio.Queue()
            port = server.sockets[0].getsockname()[1]
            connection = ProxyClient(port, lambda _, one: answered.put_nowait(one), streams=streams)
            for _ in range(times):
                connection.send(b"GET / HTTP/1.1\r\n\r\n")
                replies.append(await answered.get())
            connection.close()
            await asyncio.gather(*self._serving)
        return replies


def test_one_connection_serves_all() -> None:
    server = ScriptedServer([reply(b"one")], [reply(b"three")[:-2], b"ee"], [reply(b"")])
    replies = asyncio.run(server.asked(3))
    assert [(one.status, one.size, one.failure) for one in replies] == [
        (200, 3, ""),
        (200, 5, ""),
        (200, 0, ""),
    ]
    assert server.connections == 1
    assert all(one.began < one.ended for one in replies)


def test_a_connection_that_the_server_closes_is_opened_anew() -> None:
    server = ScriptedServer([reply(b"one", b"Connection: close\r\n")], [reply(b"two")])
    assert [one.failure for one in asyncio.run(server.asked(2))] == ["", ""]
    assert server.connections == 2


@pytest.mark.parametrize("cut", range(1, len(DONE)))
def test_events_are_counted_wherever_they_are_cut(cut: int) -> None:
    whole = reply(DONE, STREAM)
    at = len(whole) - len(DONE) + cut
    (one,) = asyncio.run(ScriptedServer([whole[:at], whole[at:]]).asked(1, streams=True))
    assert (one.failure, one.events, len(one.times)) == ("", 3, 3)
    assert one.done


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ([reply(b"busy", status=b"503 Busy")], "status 503"),
        ([reply(DONE[:-2], STREAM)], "the stream has no end"),
        ([reply(DONE, STREAM)[:-5] + b"Connection: close"], "the stream has no end"),
        ([b"nonsense\r\n\r\n"], "no HTTP: "),
        (None, "the connection was closed"),
    ],
)
def test_what_is_no_reply_says_why(answer: list[bytes] | None, failure: str) -> None:
    (one,) = asyncio.run(ScriptedServer(answer).asked(1, streams=True))
    assert one.failure.startswith(failure)


def test_a_server_that_is_not_there_is_a_failure() -> None:
    async def ask() -> ProxyReply:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        heard: asyncio.Future[ProxyReply] = asyncio.get_running_loop().create_future()
        client = ProxyClient(port, lambda _, reply: heard.set_result(reply))
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        return await heard

    assert asyncio.run(ask()).failure.startswith("no connection")


def test_no_two_requests_are_the_same() -> None:
    first, second = (requests("m", 1, stream=False) for _ in range(2))
    found = [*islice(first, 1000), *islice(second, 1000)]
    assert len(set(found)) == 2000


def test_turns_ask_each_port_as_often(upstreams: Upstreams) -> None:
    asked = [requests("m", 1, stream=False) for _ in upstreams.ports]
    seen = asyncio.run(in_turns(upstreams.ports, asked, 4, 5))
    assert [(len(one.replies), one.failures) for one in seen] == [(20, {}), (20, {})]
    for one in seen:
        assert one.seconds == pytest.approx(one.latencies().sum())


def test_an_open_loop_waits_for_all_and_counts_from_the_schedule(upstreams: Upstreams) -> None:
    upstreams.pace(0.05, 0.0)
    asked = requests("m", 1, stream=False)
    seen = asyncio.run(open_loop(upstreams.ports[0], asked, 200.0, 0.5))
    upstreams.pace(0.0, 0.0)
    assert not seen.failures
    assert len(seen.replies) > 50
    assert seen.latencies().min() >= 0.045
    began = [one.began for one in seen.replies]
    assert max(began) - min(began) <= 0.5


def test_a_closed_loop_goes_on_until_each_client_may_have_been_answered(
    upstreams: Upstreams,
) -> None:
    spent = iter([1.0, 3.5])
    upstreams.pace(0.05, 0.0)
    asked = requests("m", 1, stream=False)
    loop = closed_loop(upstreams.ports[0], asked, 8, 0.01, warm_up=0.01, cpu=lambda: next(spent))
    seen = asyncio.run(loop)
    upstreams.pace(0.0, 0.0)
    assert (len(seen.replies), seen.failures) == (8, {})
    assert seen.cpu_s == 2.5
    assert seen.rate == 8 / seen.seconds


def test_failures_are_counted_by_what_was_wrong() -> None:
    seen = RepliesSeen(1.0)
    for failure in ("", "status 503", "", "status 503", "no HTTP"):
        seen.add(ProxyReply(0.0, failure=failure))
    assert (seen.rate, seen.failures) == (2.0, {"status 503": 2, "no HTTP": 1})


@pytest.mark.parametrize("step_s", [0.0, 0.005])
def test_held_streams_are_followed_by_others(upstreams: Upstreams, step_s: float) -> None:
    upstreams.pace(0.0, step_s)
    asked = requests("m", 8, stream=True)
    flow = asyncio.run(hold_streams(upstreams.ports[0], asked, 5, ramp_s=0.05, seconds=0.5))
    upstreams.pace(0.0, 0.0)
    assert not flow.failures
    assert flow.events > 5 * 11, "more than one stream of each connection"
    assert len(flow.first) > 5
    assert len(flow.gaps) <= flow.events + flow.count
    assert flow.quantile_s(0.5) <= flow.quantile_s(1.0) < flow.seconds


def test_a_stream_that_stops_is_a_gap_up_to_the_end(upstreams: Upstreams) -> None:
    async def hold() -> float:
        upstreams.pace(0.0, 60.0)
        asked = requests("m", 8, stream=True)
        flow = await hold_streams(upstreams.ports[0], asked, 3, ramp_s=0.01, seconds=0.2)
        assert flow.events == 0
        return float(np.min(flow.gaps))

    assert asyncio.run(hold()) >= 0.2
    upstreams.pace(0.0, 0.0)
