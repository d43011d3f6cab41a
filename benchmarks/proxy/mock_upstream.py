"""OpenAI-compatible servers that answer from prepared bytes, so that only a proxy's cost is seen.

A response has as many tokens as were asked for. The first comes `first_s` after the request; then
every running stream gets a token at each step, `step_s` apart, as from an engine with continuous
batching. With `step_s` 0 a step is a turn of the event loop. All servers share one process and its
pace, which `POST /pace` changes.

``python -m benchmarks.proxy.mock_upstream N`` prints its N ports on one line.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import httptools
import msgspec
import uvloop

MODEL = "small"
_DEFAULT_TOKENS = 16


class Pace(msgspec.Struct):
    """Seconds to the first token and from step to step; of all servers."""

    first_s: float = 0.0
    step_s: float = 0.0


class Asked(msgspec.Struct):
    """What a request's body says, as far as it matters here."""

    stream: bool = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream_options: dict[str, Any] | None = None


def reply(content_type: bytes, body: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole HTTP response."""
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (status, content_type, len(body)) + body


def chunk(event: bytes) -> bytes:
    """One server-sent event as a chunk of a chunked body."""
    data = b"data: %b\n\n" % event
    return b"%x\r\n%b\r\n" % (len(data), data)


def _delta(delta: str, finish: str) -> bytes:
    return chunk(
        b'{"id":"chatcmpl-mock","object":"chat.completion.chunk","created":1,"model":"%b",'
        b'"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]}'
        % (MODEL.encode(), delta.encode(), finish.encode())
    )


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)
ROLE = _delta('{"role":"assistant","content":""}', "null")
TOKEN = _delta('{"content":" token"}', "null")
FINISH = _delta("{}", '"length"')
END = chunk(b"[DONE]") + b"0\r\n\r\n"
NOT_FOUND = reply(b"application/json", b'{"error":{"message":"not here"}}', b"404 Not Found")
PAGES = {
    b"/health": b"{}",
    b"/health_generate": b"{}",
    b"/version": b'{"version":"0.11.0"}',
    b"/v1/models": b'{"object":"list","data":[{"id":"%b","object":"model","created":1,'
    b'"owned_by":"mock","max_model_len":32768}]}' % MODEL.encode(),
    b"/get_model_info": b'{"model_path":"%b","is_generation":true}' % MODEL.encode(),
    b"/model_info": b'{"model_path":"%b","is_generation":true}' % MODEL.encode(),
    b"/get_server_info": b'{"model_path":"%b","served_model_name":"%b","tp_size":1,"dp_size":1,'
    b'"version":"0.5.0"}' % (MODEL.encode(), MODEL.encode()),
    b"/server_info": b'{"model_path":"%b","served_model_name":"%b","tp_size":1,"dp_size":1,'
    b'"version":"0.5.0"}' % (MODEL.encode(), MODEL.encode()),
}


def _usage(tokens: int) -> bytes:
    return b'"usage":{"prompt_tokens":16,"completion_tokens":%d,"total_tokens":%d}' % (
        tokens,
        16 + tokens,
    )


def completion(tokens: int) -> bytes:
    """The response of a request that does not stream."""
    body = (
        b'{"id":"chatcmpl-mock","object":"chat.completion","created":1,"model":"%b","choices":'
        b'[{"index":0,"message":{"role":"assistant","content":"%b"},"logprobs":null,'
        b'"finish_reason":"length"}],%b}' % (MODEL.encode(), b" token" * tokens, _usage(tokens))
    )
    return reply(b"application/json", body)


class Server:
    """What is the same for all connections of one port."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.running: dict[UpstreamConnection, None] = {}
        self._completions: dict[int, bytes] = {}
        self._due = 0.0
        self._ticking = False

    def completion(self, tokens: int) -> bytes:
        """`completion`, kept."""
        if tokens not in self._completions:
            self._completions[tokens] = completion(tokens)
        return self._completions[tokens]

    def metrics(self) -> bytes:
        """As vLLM has them."""
        label = b'{model_name="%b"}' % MODEL.encode()
        return reply(
            b"text/plain; version=0.0.4",
            b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running%b %d.0\n"
            b"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting%b 0.0\n"
            b"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc%b 0.1\n"
            % (label, len(self.running), label, label),
        )

    def run(self, stream: UpstreamConnection) -> None:
        """From now on the stream has a token at each step."""
        self.running[stream] = None
        if not self._ticking:
            self._ticking = True
            self._due = asyncio.get_running_loop().time()
            self._next()

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        step = self.pace.step_s
        if not step:
            loop.call_soon(self._tick)
            return
        late = max(0.0, loop.time() - self._due)
        self._due += step * (1 + math.floor(late / step))
        loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        for stream in list(self.running):
            stream.step()
        if self.running:
            self._next()
        else:
            self._ticking = False


class UpstreamConnection(asyncio.Protocol):
    """One client's; requests on it are answered one after another."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.WriteTransport
        self._url = b""
        self._body = b""
        self._left = 0
        self._tail = b""
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are not of that class

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.running.pop(self, None)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:  # HTTP/2, which some routers try first, and what else
            self._transport.close()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False

    def on_message_begin(self) -> None:
        self._body = b""

    def on_url(self, url: bytes) -> None:
        self._url = url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._url == b"/v1/chat/completions":
            self._answer(msgspec.json.decode(self._body, type=Asked))
        elif self._url == b"/metrics":
            self._transport.write(self._server.metrics())
        elif self._url == b"/pace":
            pace = msgspec.json.decode(self._body, type=Pace)
            self._server.pace.first_s, self._server.pace.step_s = pace.first_s, pace.step_s
            self._transport.write(reply(b"application/json", b"{}"))
        elif self._url in PAGES:
            self._transport.write(reply(b"application/json", PAGES[self._url]))
        else:
            self._transport.write(NOT_FOUND)

    def _answer(self, asked: Asked) -> None:
        tokens = asked.max_completion_tokens or asked.max_tokens or _DEFAULT_TOKENS
        if not asked.stream:
            self._after_first(self._transport.write, self._server.completion(tokens))
            return
        usage = b""
        if (asked.stream_options or {}).get("include_usage"):
            usage = chunk(
                b'{"id":"chatcmpl-mock","object":"chat.completion.chunk","created":1,'
                b'"model":"%b","choices":[],%b}' % (MODEL.encode(), _usage(tokens))
            )
        self._left, self._tail = tokens, FINISH + usage + END
        self._after_first(self._begin)

    def _after_first(self, act: Callable[..., object], *arguments: object) -> None:
        if self._server.pace.first_s:
            loop = asyncio.get_running_loop()
            loop.call_later(self._server.pace.first_s, act, *arguments)
        else:
            act(*arguments)

    def _begin(self) -> None:
        if self._transport.is_closing():
            return
        self._left -= 1
        first = STREAM_HEAD + ROLE + TOKEN
        if self._left:
            self._transport.write(first)
            self._server.run(self)
        else:
            self._transport.write(first + self._tail)

    def step(self) -> None:
        """One token more, unless the client does not read."""
        if self._paused:
            return
        self._left -= 1
        if self._left:
            self._transport.write(TOKEN)
        else:
            del self._server.running[self]
            self._transport.write(TOKEN + self._tail)


async def serve(count: int) -> None:
    """Serve on so many free ports until cancelled."""
    loop = asyncio.get_running_loop()
    pace = Pace()
    servers = []
    for _ in range(count):
        connect = partial(UpstreamConnection, Server(pace))
        servers.append(await loop.create_server(connect, "127.0.0.1", 0, backlog=4096))
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
