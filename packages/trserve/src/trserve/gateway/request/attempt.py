"""One try of one request at one instance: sent, answered, passed on."""

from __future__ import annotations

import asyncio
import io
import os
import re
from typing import TYPE_CHECKING

import aiohttp

from trserve.gateway.request.attempt_outcome import AttemptFailedError, Stored
from trserve.gateway.request.connection_release import release_connection
from trserve.gateway.request.event_blocks import EventBlocks, NotEventsError
from trserve.gateway.request.reply import passed_on
from trserve.gateway.request.usage import credible, usage_of
from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from trserve.gateway.request.attempt_outcome import Progress
    from trserve.gateway.request.flight import Flight
    from trserve.gateway.request.reply import Headers, Reply

_MOST_HELD_BODY = 4 << 20  # a larger answer is passed on as it comes
_MOST_ERROR_BODY = 1 << 20
_LARGE = 1 << 20  # bytes that aiohttp wants to send in pieces, and warns of in one
_TOO_LONG = re.compile(rb"context[_ ](?:length|size|window)", re.IGNORECASE)

_BUSY = (408, 429)
_REFUSED = (401, 404, 407, *_BUSY)
"""Of the gateway itself rather than of its client: it names the model there, and has the key."""


class Attempt:
    """name: the instance's, for errors. decision: headers about the choice.

    note: the same as a JSON object, for who asked for it: a field of the answer, or a comment
    before a stream's events.
    """

    def __init__(
        self,
        name: str,
        reply: Reply,
        flight: Flight,
        progress: Progress,
        decision: Headers,
        note: bytes = b"",
    ) -> None:
        self._name = name
        self._reply = reply
        self._flight = flight
        self._progress = progress
        self._decision = decision
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._complete = False

    async def run(
        self,
        session: aiohttp.ClientSession,
        url: str,
        body: bytes,
        headers: dict[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> None:
        """Raises AttemptFailedError before the first byte; after it, what breaks ends the answer.

        CancelledError passes through, the connection to the instance closed.
        """
        self._flight.enter("first byte", self._loop.time())
        try:
            data = body if len(body) <= _LARGE else io.BytesIO(body)
            response = await session.post(
                url, data=data, headers=headers, timeout=limits, allow_redirects=False
            )
            try:
                self._progress.status = response.status
                await self._pass_on(response)
            finally:
                release_connection(response, complete=self._complete)
        except aiohttp.ClientConnectorError as error:
            number = error.errno or 0
            why = os.strerror(number) if number > 0 else "its name is unknown"
            raise self._failure("unreachable", f"cannot be reached: {why}") from error
        except aiohttp.ConnectionTimeoutError as error:
            raise self._failure("unreachable", "did not accept a connection in time") from error
        except (aiohttp.ClientError, NotEventsError) as error:
            await self._broken(_in_short(error))

    async def _pass_on(self, response: aiohttp.ClientResponse) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not 200 <= response.status < 600:
            raise self._failure("garbage", f"answered with the status {response.status}")
        if response.status >= 500 or response.status in _REFUSED:
            raise await self._refused(response)
        if 300 <= response.status < 400:
            raise self._failure("garbage", "sends its clients elsewhere")
        if kind == "text/event-stream":
            await self._events(response)
        elif kind == "application/json" or response.status != 200:
            await self._body(response)
        else:
            raise self._failure("garbage", f"answered with {kind or 'no content type'}")

    async def _refused(self, response: aiohttp.ClientResponse) -> AttemptFailedError:
        body = b""
        async for data in response.content.iter_any():
            body += data
            if len(body) > _MOST_ERROR_BODY:
                break
        status = response.status
        if status in (401, 407):
            return self._failure("unauthorized", "does not take the gateway's key")
        stored = Stored(status, self._headers(response), body)
        # a path that it doesn't have is the client's choice, a model that it doesn't have is not
        elsewhere = status == 501 or (status == 404 and b"model" not in body)
        at_fault = status not in _BUSY and not elsewhere
        return AttemptFailedError(f"status {status}", stored, at_fault=at_fault)

    async def _events(self, response: aiohttp.ClientResponse) -> None:
        blocks, progress = EventBlocks(), self._progress
        flight, reply, now = self._flight, self._reply, self._loop.time
        async for data in response.content.iter_any():
            block = blocks.push(data)
            came = flight.touched = now()
            if not block:
                continue
            if blocks.server_failed:
                self._failed_within(response, block)
            else:
                progress.tokens = blocks.events
                progress.on_tokens(blocks.events)
            if not reply.begun:
                await reply.start(response.status, self._headers(response), events=True)
                if self._note:
                    block = b": routebalance " + self._note + b"\n\n" + block
            if blocks.done:
                self._count(blocks.usage)
                await self._finish(block)
                self._complete = True
                return
            flight.phase = "client"
            await reply.write(block)
            flight.enter("streaming", now())
            progress.stalled_s += flight.touched - came
        if not reply.begun:
            raise self._failure("empty", "sent an empty stream")
        self._count(blocks.usage)
        rest = blocks.rest()
        if rest is None:
            await self._broken("the stream ended before [DONE]")
        else:
            await self._finish(rest)

    def _failed_within(self, response: aiohttp.ClientResponse, block: bytes) -> None:
        """The stream's last event is an error of the server's."""
        self._progress.broken = "it ended the stream with an error"
        if not self._reply.begun:
            stored = Stored(response.status, self._headers(response), block)
            raise AttemptFailedError("error event", stored)

    async def _finish(self, data: bytes) -> None:
        """The last piece; what comes after it is nobody's to interrupt."""
        self._flight.enter("client", self._loop.time())
        await self._reply.write(data, more=False)
        self._flight.over()

    async def _body(self, response: aiohttp.ClientResponse) -> None:
        parts, size = [], 0
        async for data in response.content.iter_any():
            parts.append(data)
            size += len(data)
            if size > _MOST_HELD_BODY:
                await self._large_body(response, b"".join(parts))
                return
        body = b"".join(parts)
        if response.status == 400 and _TOO_LONG.search(body):
            stored = Stored(400, self._headers(response), body)
            raise AttemptFailedError("context", stored, at_fault=False)
        if response.status == 200:
            try:
                self._count(usage_of(body))
            except (ValueError, RecursionError) as error:
                raise self._failure("garbage", "sent what is no JSON object") from error
        if self._note and response.status == 200:
            fields = body.strip()[1:-1].rstrip()
            comma = b"," if fields else b""
            body = b"{" + fields + comma + b'"routebalance":' + self._note + b"}"
        headers = self._headers(response)
        headers.append((b"content-length", str(len(body)).encode()))
        await self._reply.start(response.status, headers)
        await self._finish(body)

    async def _large_body(self, response: aiohttp.ClientResponse, held: bytes) -> None:
        flight, now = self._flight, self._loop.time
        await self._reply.start(response.status, self._headers(response))
        flight.enter("client", now())
        await self._reply.write(held)
        flight.enter("streaming", now())
        async for data in response.content.iter_any():
            flight.enter("client", now())
            await self._reply.write(data)
            flight.enter("streaming", now())
        await self._finish(b"")

    async def _broken(self, why: str) -> None:
        """The instance stopped in the middle: try elsewhere if nothing was sent, else say so."""
        if not self._reply.begun:
            raise self._failure("broken", f"broke off: {why}")
        self._progress.broken = why
        self._flight.over()
        await self._reply.break_off(
            ApiError(502, f"Instance {self._name} broke off: {why}.", code="upstream_broken")
        )

    def _count(self, usage: tuple[int, int] | None) -> None:
        if usage is not None:
            self._progress.prompt_tokens, self._progress.tokens = map(credible, usage)

    def _headers(self, response: aiohttp.ClientResponse) -> Headers:
        return passed_on(response.raw_headers) + self._decision

    def _failure(self, reason: str, said: str) -> AttemptFailedError:
        answer = ApiError(502, f"Instance {self._name} {said}.", code=f"upstream_{reason}")
        return AttemptFailedError(reason, answer)


def _in_short(error: Exception) -> str:
    """One line that says nothing of the instance's address."""
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return text.partition("\n")[0].rstrip(":") or type(error).__name__
