"""A client loop without its thread, whose subservers are played by the test."""

from __future__ import annotations

from typing import Any

from tests.support.trsched.groups import request
from trcore import PeerRing
from trrouters import BaseRouter, RouterContext
from trsched.loops.client_loop import ClientLoop
from trsched.loops.stream import Stream
from trsched.request import Event, TokenEvent, TokenLogprobs
from trsched.shared.active_count import ActiveCount
from trsched.wire.codec import HandOff, decode_inbound, encode_report
from trsched.wire.messages import Admit, Command, Report, StepEvents

PROMPT = list(b"hello")


class Desk:
    """A client loop whose subservers are played by the test."""

    def __init__(
        self,
        *,
        models: int = 2,
        slots: int = 4,
        router: BaseRouter | None = None,
        degrade: bool = True,
    ) -> None:
        self.reports = PeerRing.heap(1 << 16)
        self.rings = [PeerRing.heap(1 << 16) for _ in range(models)]
        self.delivered: dict[Stream, list[Event]] = {}
        self.deaths: list[tuple[int, str]] = []
        self.router_errors: list[tuple[int, str]] = []
        self.active = ActiveCount()
        self.loop = ClientLoop(
            self.reports,
            self.rings,
            router or BaseRouter(RouterContext(0, models, 257)),
            slots=slots,
            active=self.active,
            deliver=self._deliver,
            degrade=degrade,
            on_death=lambda index, error: self.deaths.append((index, error)),
            on_router_error=lambda index, error: self.router_errors.append((index, error)),
        )

    def _deliver(self, batch: list[tuple[Stream, list[Event]]]) -> None:
        for stream, events in batch:
            assert events
            self.delivered.setdefault(stream, []).extend(events)

    def admit(self, **fields: Any) -> tuple[Stream, int]:
        """A request that has been admitted, and its handle."""
        stream = Stream(request(**fields))
        assert self.loop.submit(stream, limit=1)
        self.loop.turn()
        admit, *others = [self.inbox(index)[-1] for index in range(len(self.rings))]
        assert isinstance(admit, Admit)
        assert all(message == admit for message in others)
        return stream, admit.handle

    def report(self, *reports: Report) -> None:
        """Reports that all come in before the next turn."""
        for report in reports:
            assert self.reports.push(encode_report(report))
        self.loop.turn()

    def inbox(self, index: int) -> list[HandOff | Command]:
        """What a subserver has been sent since."""
        return [decode_inbound(record) for record in self.rings[index].drain()]


def step(
    handle: int,
    position: int,
    *,
    model: int = 0,
    owner: int | None = None,
    finish: int = 0,
    logprobs: TokenLogprobs | None = None,
) -> StepEvents:
    """One row: `model` committed the token at `position` (-1: none), `owner` has it now."""
    return StepEvents(
        model,
        [handle],
        [position],
        [100 + position],
        [model if owner is None else owner],
        [finish],
        [],
        {} if logprobs is None else {0: logprobs},
    )


def token(position: int, model: int = 0) -> TokenEvent:
    return TokenEvent(position, 100 + position, model)
