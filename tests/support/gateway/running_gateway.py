"""A gateway on a real socket, in this process, with a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import openai
import uvloop
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import ASGIApp

from tests.support.gateway.scripted_upstream import ScriptedUpstream
from tests.support.waiting import until
from trserve.gateway.config.deployment import GatewayDeployment, load_gateway
from trserve.gateway.gateway import Gateway
from trserve.gateway.http.app import create_gateway_app
from trserve.gateway.metrics.tracing import Tracing
from trserve.gateway.pool.balancing import open_balancing
from trserve.gateway.upstream.connection_release import ConnectionRelease
from trserve.http.http_server import HttpServer, finish
from trserve.http.listener import listen, reserve, url_of

T = TypeVar("T")

ADMIN = {"authorization": "Bearer admin"}
HI = [{"role": "user", "content": "Hi"}]


class RunningGateway:
    """problems: what the event loop had to report because nobody else would."""

    def __init__(self, url: str, gateway: Gateway, loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.gateway = gateway
        self.problems: list[str] = []
        self.http = httpx.Client(base_url=url, timeout=20, trust_env=False)
        self.loop = loop

    def call(self, function: Callable[[], T]) -> T:
        """What it returns in the event loop."""

        async def called() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(20)

    def chat(self, **fields: Any) -> httpx.Response:
        """A chat completion, whole or streamed, read to its end."""
        return self.http.post("/v1/chat/completions", json=chat_request(**fields))

    @contextmanager
    def stream(self, **fields: Any) -> Iterator[httpx.Response]:
        """A streamed one, to be read."""
        body = chat_request(stream=True, **fields)
        with self.http.stream("POST", "/v1/chat/completions", json=body) as response:
            yield response

    @contextmanager
    def sent(self, **fields: Any) -> Iterator[socket.socket]:
        """A chat completion that has been sent; the client leaves at the end of the block."""
        with socket.create_connection(("127.0.0.1", httpx.URL(self.url).port), 20) as sock:
            sock.sendall(request_bytes(chat_request(**fields)))
            yield sock

    @contextmanager
    def openai(self) -> Iterator[Any]:
        """The official client; untyped, because tests send what its types forbid."""
        url = f"{self.url}/v1"
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            yield client

    def instances(self) -> dict[str, dict[str, Any]]:
        """`/admin/instances` by name."""
        listed = self.http.get("/admin/instances", headers=ADMIN).json()["instances"]
        return {each["name"]: each for each in listed}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels, 0 if there are none."""
        page = self.http.get("/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def in_flight(self) -> dict[str, tuple[int, ...]]:
        """By instance, the account of what was sent and has not ended; all zero when idle."""

        def account() -> dict[str, tuple[int, ...]]:
            own = self.gateway.state.in_flight
            columns = (own.waiting, own.running, own.pending_prefill, own.pending_decode)
            return {
                each.name: (
                    *(int(column[each.number]) for column in (*columns, own.context, own.written)),
                    len(each.requests),
                    *([] if each.permits is None else [_taken(each.permits, each.spec)]),
                )
                for each in self.gateway.pool.instances
            }

        return self.call(account)

    def wait_until_idle(self) -> None:
        """Until nothing is under way and every account is exactly zero."""

        def idle() -> bool:
            return (
                not self.call(lambda: len(self.gateway.in_flight))
                and not any(map(any, self.in_flight().values()))
                and self.call(lambda: len(self.gateway.state.in_flight)) == 0
            )

        try:
            until(idle)
        except AssertionError as error:
            raise AssertionError(f"never idle: {self.in_flight()}") from error

    def wait_for_responses(self, count: int) -> None:
        """Until so many requests for text have got their status, or lost their client."""
        paths = ("/v1/chat/completions", "/v1/completions")
        total = "trgateway_responses_total"
        until(lambda: sum(self.metric(total, path=path) for path in paths) >= count)


def _taken(permits: asyncio.Semaphore, spec: Any) -> int:
    return int(spec.concurrency - permits._value)


def chat_request(**fields: Any) -> dict[str, Any]:
    """The body of a small one."""
    return {"model": "auto", "messages": HI, **fields}


def pool(
    upstreams: Sequence[ScriptedUpstream], *, each: Mapping[str, Any] | None = None, **sections: Any
) -> dict[str, Any]:
    """A configuration: instances a, b, … of the model `small`, checked seldom, scraped never.

    each: more fields of every instance. Sections given replace those here.
    """
    instances = [
        {"name": chr(ord("a") + at), "model": "small", "url": server.url, "metrics_path": None}
        | dict(each or {})
        for at, server in enumerate(upstreams)
    ]
    return {
        "models": [{"name": "small", "length": 8}],
        "instances": instances,
        "timeouts": {"connect_s": 1, "first_byte_s": 15, "whole_s": 15, "idle_s": 15},
        "breaker": {"failures": 1000, "cooldown_s": 0.1},
        "checks": {"health_s": 60, "health_timeout_s": 20, "telemetry_s": 0.02},
        "server": {"admin_key": "admin"},
        **sections,
    }


def request_bytes(body: object, path: str = "/v1/chat/completions") -> bytes:
    """The request as it goes over the wire."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


class _Server(HttpServer):
    """Ends when it is told to, not when it next looks."""

    def __init__(self, app: ASGIApp, started: threading.Event, stopping: asyncio.Event) -> None:
        super().__init__(app, access_log=False, on_started=started.set)
        self._stopping = stopping

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._stopping.wait()


async def _serve(
    deployment: GatewayDeployment,
    made: list[RunningGateway],
    started: threading.Event,
    stopping: asyncio.Event,
    read_on_s: float,
) -> None:
    balancing = open_balancing(deployment.gateway)
    with reserve("127.0.0.1", 0) as sock:
        url = url_of(sock, "127.0.0.1")
        connections = ConnectionRelease(read_on_s)
        async with Gateway(deployment, balancing, {}, Tracing(None), connections) as gateway:
            loop = asyncio.get_running_loop()
            running = RunningGateway(url, gateway, loop)
            loop.set_exception_handler(lambda loop, context: running.problems.append(repr(context)))
            made.append(running)
            listen(sock, "127.0.0.1")
            server = _Server(create_gateway_app(gateway), started, stopping)
            serving = asyncio.ensure_future(server.serve([sock]))
            waiting = asyncio.ensure_future(stopping.wait())
            await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
            gateway.in_flight.stop_all()
            await finish(server, serving)


@contextmanager
def running_gateway(
    folder: Path, config: Mapping[str, Any], read_on_s: float = 1.0
) -> Iterator[RunningGateway]:
    """Ready, and at the end stopped; nothing may have gone unhandled in it.

    read_on_s: how long it waits for the end of an answer that is complete.
    """
    path = folder / "gateway.yaml"
    path.write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")
    deployment = load_gateway(path, {"host": "127.0.0.1", "port": 0})
    started, stopping = threading.Event(), asyncio.Event()
    made: list[RunningGateway] = []

    def run() -> None:
        try:
            uvloop.run(_serve(deployment, made, started, stopping, read_on_s))
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(20)
    (running,) = made
    try:
        with running.http:
            yield running
    finally:
        running.loop.call_soon_threadsafe(stopping.set)
        thread.join(20)
        assert not thread.is_alive()
    assert running.problems == []
