"""A request that is being served, as the client will see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from trsched.loops.stream import Stream
from trsched.request import Event, FinishReason, TokenEvent


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """Committed tokens of all subservers, put in order of position.

    owner: the subserver that has the request now.
    tokens: committed in order, from position 0.
    events: not yet delivered.
    end: how many tokens the response has and why it ends there, once a subserver, `ended_by`, has
        said so; tokens before that may still be on their way.
    """

    stream: Stream
    handle: int
    owner: int
    tokens: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    end: tuple[int, FinishReason] | None = None
    ended_by: int = 0
    handoffs: int = 0
    degraded: bool = False
    _early: dict[int, TokenEvent] = field(default_factory=dict)

    @property
    def routed(self) -> bool:
        """Whether it may be handed over: it isn't bound to one model."""
        return self.stream.request.only is None

    def commit(self, event: TokenEvent) -> None:
        """Take a token; it is held back while predecessors, from other models, haven't come yet."""
        self._early[event.position] = event
        while (ready := self._early.pop(len(self.tokens), None)) is not None:
            self.tokens.append(ready.token_id)
            self.events.append(ready)

    def complete(self) -> bool:
        """Whether all tokens up to the end have been committed."""
        return self.end is not None and len(self.tokens) == self.end[0]

    def take_events(self) -> list[Event]:
        """What is to be delivered now."""
        events, self.events = self.events, []
        return events
