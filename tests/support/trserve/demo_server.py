"""An app on a real socket, with uvicorn in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import openai
import uvicorn
from fastapi import FastAPI

from tests.support.trserve.scripted_group import ScriptedGroup, ScriptVocabulary
from trserve.server.app import create_app
from trserve.server.group.event_delivery import EventDelivery
from trserve.server.group.served_group import ServedGroup


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


def serve(served: ServedGroup) -> AbstractContextManager[str]:
    """The URL of a server of that group while it runs."""
    return serve_app(create_app(served))


@contextmanager
def serve_app(app: FastAPI) -> Iterator[str]:
    """The server's URL while it runs."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = _Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, args=([sock],))
    thread.start()
    try:
        assert server.is_up.wait(20)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        sock.close()
        assert not thread.is_alive()


@dataclass
class Demo:
    """A scripted group behind HTTP, and clients for it."""

    url: str
    group: ScriptedGroup
    served: ServedGroup
    http: httpx.Client
    _clients: list[openai.OpenAI] = field(default_factory=list)

    @property
    def client(self) -> Any:
        """The official client; untyped, because tests send what its types forbid."""
        if not self._clients:
            self._clients.append(
                openai.OpenAI(base_url=f"{self.url}/v1", api_key="secret", max_retries=0)
            )
        return self._clients[0]

    def chat(self, **fields: Any) -> httpx.Response:
        body = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]} | fields
        return self.http.post("/v1/chat/completions", json=body)

    def complete(self, **fields: Any) -> httpx.Response:
        return self.http.post("/v1/completions", json={"model": "demo", "prompt": "Hi"} | fields)

    def close(self) -> None:
        for client in self._clients:
            client.close()


@contextmanager
def demo_server(
    vocabulary: ScriptVocabulary | None = None, context: int = 512, **serving_options: Any
) -> Iterator[Demo]:
    """A scripted group behind a real socket."""
    delivery = EventDelivery()
    group = ScriptedGroup(delivery.deliver, vocabulary, context)
    try:
        served = ServedGroup(group, delivery, **serving_options)
        with serve(served) as url, httpx.Client(base_url=url, timeout=20) as http:
            demo = Demo(url, group, served, http)
            try:
                yield demo
            finally:
                demo.close()
    finally:
        group.close()
