"""Token-level routing over ordinary single-model servers: each hand-over is a request of its own.

An unmodified server offers no routing between its steps, so a client drives it: one request for
each step that must be looked at, with all token ids so far as the prompt. Connections are kept, the
servers' prompt caches are on, and they batch whatever requests they have.

To make every system do the same work, the driver follows the path that a routed response took
elsewhere (`benchmarks.systems.path`): the decisions themselves cost this baseline nothing, and a
server's own token is replaced by the one that stood.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.load.keep_alive import KeepAlive
from benchmarks.load.system import TimedResponse, WorkItem
from benchmarks.systems.path import Flow, Visit, visits


class SingleModelServer(Protocol):
    """An HTTP server on this host that continues token ids with one model."""

    port: int
    path: str

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that decides how fast it is."""

    def body(self, prompt: bytes, count: int, slot: int) -> bytes:
        """The request for `count` tokens after `prompt`, token ids separated by commas.

        slot: of the requests now active this one's number, the same in all its steps.
        """


@dataclass(frozen=True, slots=True)
class ServerCall:
    """One request to a server and its reply; times in seconds of `time.perf_counter`."""

    visit: Visit
    began: float
    ended: float
    reply: bytes


class StdServing:
    """A client-side driver of one server for each model; implements `System`.

    recorded: the outcome of each item, by its number, in the system to be compared with.
    concurrency: requests served at once; others wait for their turn.
    """

    def __init__(
        self,
        name: str,
        servers: Sequence[SingleModelServer],
        recorded: Mapping[int, TimedResponse],
        flow: Flow,
        *,
        concurrency: int,
        tokens_per_visit: int = 1,
    ) -> None:
        self.name = name
        self.servers = tuple(servers)
        self._recorded = recorded
        self._flow: Flow = flow
        self._tokens_per_visit = tokens_per_visit
        self._concurrency = concurrency
        self._slots: asyncio.LifoQueue[int] = asyncio.LifoQueue()
        for slot in reversed(range(concurrency)):
            self._slots.put_nowait(slot)

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that decides how fast it is, printed with the result."""
        return {
            "driver": "one HTTP request a step, all token ids as its prompt, kept connections; "
            "follows the recorded path, so decisions and replies' contents cost it nothing",
            "flow": self._flow,
            "tokens_per_visit": self._tokens_per_visit,
            "concurrency": self._concurrency,
            "servers": [server.configuration for server in self.servers],
        }

    def recorded_tokens(self, item: WorkItem) -> list[int]:
        """The tokens that stand in the end."""
        return self._recorded[item.number].tokens

    async def serve(self, item: WorkItem) -> TimedResponse:
        """One request: the recorded tokens, as fast as the servers make their like."""
        recorded = self._recorded[item.number]
        outcome = TimedResponse(time.perf_counter())
        async for step in self.steps(item):
            if step.visit.stands:
                made = slice(step.visit.position, step.visit.position + step.visit.count)
                outcome.tokens += recorded.tokens[made]
                outcome.models += recorded.models[made]
                outcome.times += [step.ended] * step.visit.count
        return outcome

    async def steps(self, item: WorkItem) -> AsyncIterator[ServerCall]:
        """The same, request by request, over a connection of its own to each server."""
        recorded = self._recorded[item.number]
        path = visits(recorded.models, self._flow, tokens_per_visit=self._tokens_per_visit)
        prompt = bytearray(_joined(item.prompt_ids))
        slot = await self._slots.get()
        connections = [KeepAlive(server.port) for server in self.servers]
        try:
            for visit in path:
                server = self.servers[visit.model]
                began = time.perf_counter()
                body = server.body(bytes(prompt), visit.count, slot)
                reply = await connections[visit.model].post(server.path, body)
                yield ServerCall(visit, began, time.perf_counter(), reply)
                if visit.stands:
                    end = visit.position + visit.count
                    prompt += b"," + _joined(recorded.tokens[visit.position : end])
        finally:
            for connection in connections:
                connection.close()
            self._slots.put_nowait(slot)


def _joined(token_ids: Sequence[int]) -> bytes:
    return ",".join(map(str, token_ids)).encode()
