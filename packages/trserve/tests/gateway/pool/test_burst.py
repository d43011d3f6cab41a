"""Many requests at once do not herd, whatever telemetry says (25)."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator, Sequence

import aiohttp
import pytest

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import RunningGateway, chat_request
from tests.support.gateway.scripted_upstream import Exchange, ScriptedUpstream
from tests.support.gateway.upstream_answers import always, held, polite

REQUESTS = 800
PATIENT = {"connect_s": 60, "first_byte_s": 120, "idle_s": 120}


@pytest.fixture(autouse=True)
def _enough_files() -> Iterator[None]:
    """Each request has four ends of sockets in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 5 * REQUESTS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"needs {wanted} open files, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def burst(gateways: Sequence[RunningGateway], servers: Sequence[ScriptedUpstream]) -> list[int]:
    """Send all at once; the requests in flight by instance when all have arrived."""
    gate = Gate()
    for server in servers:
        server.answer = held(gate, polite)

    def exchanges() -> list[list[Exchange]]:
        return [server.exchanges for server in servers]

    async def run() -> list[int]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def one(number: int) -> int:
                url = f"{gateways[number % len(gateways)].url}/v1/chat/completions"
                async with session.post(url, json=chat_request(stream=number % 2 == 0)) as answer:
                    await answer.read()
                    return answer.status

            tasks = [asyncio.ensure_future(one(number)) for number in range(REQUESTS)]
            while sum(map(len, exchanges())) < REQUESTS:
                done, _ = await asyncio.wait(
                    tasks, timeout=0.05, return_when=asyncio.FIRST_COMPLETED
                )
                assert not done, [each.result() for each in done]
            counts = list(map(len, exchanges()))
            gate.open()
            assert set(await asyncio.gather(*tasks)) == {200}
            return counts

    async def run_and_close() -> list[int]:
        counts = await run()
        await asyncio.sleep(0)  # the session's sockets close in the loop's next turn
        return counts

    return asyncio.run(run_and_close())


def herding(counts: list[int]) -> float:
    return max(counts) / (sum(counts) / len(counts))


def test_eight_hundred_at_once(upstreams, gateways) -> None:
    servers = upstreams(count=8)
    gateway = gateways(servers, timeouts=PATIENT)
    counts = burst([gateway], servers)
    assert sum(counts) == REQUESTS
    assert herding(counts) <= 1.3, counts
    gateway.wait_until_idle()


@pytest.mark.parametrize("fresh", [True, False])
def test_two_gateways_in_front_of_the_same_instances(upstreams, gateways, fresh: bool) -> None:
    """Each sees the other's load by telemetry, or, where that lies, not at all."""
    servers = upstreams(count=8)

    def page(server: ScriptedUpstream):
        async def answer(exchange: Exchange) -> None:
            running = max(0, server.open - 1) if fresh else 0
            text = f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n"
            await always(200, text.encode(), kind="text/plain")(exchange)

        return answer

    for server in servers:
        server.pages["/metrics"] = page(server)
    both = [
        gateways(servers, each={"metrics_path": "/metrics"}, timeouts=PATIENT) for _ in range(2)
    ]
    counts = burst(both, servers)
    assert sum(counts) == REQUESTS
    assert herding(counts) <= 1.3, counts
    for gateway in both:
        gateway.wait_until_idle()
