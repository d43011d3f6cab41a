"""One request in one subserver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from trcore import PendingTable
from trsched.wire.messages import Admit


class PeerLocs(Sequence[int]):
    """The request's anchors in the table: how many of its tokens peer k is known to hold."""

    __slots__ = ("_handle", "_table")

    def __init__(self, table: PendingTable, handle: int) -> None:
        self._table = table
        self._handle = handle

    @overload
    def __getitem__(self, peer: int) -> int: ...
    @overload
    def __getitem__(self, peer: slice) -> Sequence[int]: ...
    def __getitem__(self, peer: int | slice) -> int | Sequence[int]:
        if isinstance(peer, slice):
            return [self[k] for k in range(*peer.indices(len(self)))]
        return self._table.anchor(self._handle, peer)

    def __len__(self) -> int:
        return self._table.peers


class LocalRequest:
    """Implements `trrouters.RoutedRequest`.

    seq: the engine's sequence, None while it has none.
    given: tokens of the request that the engine's sequence holds.
    arrived_ns: when the hand-off that brought it was decided, 0 once it has run.
    degraded: the router failed here and the request went on.
    stays: it never leaves this model, whatever the router says.
    """

    __slots__ = (
        "arrived_loc",
        "arrived_ns",
        "degraded",
        "given",
        "max_tokens",
        "origin_input_ids",
        "output_ids",
        "peer",
        "peer_locs",
        "rid",
        "sampling",
        "seq",
        "stays",
        "stop_token_ids",
        "threshold",
    )

    def __init__(self, admit: Admit, table: PendingTable) -> None:
        self.rid = admit.handle
        self.origin_input_ids = admit.prompt_ids
        self.output_ids: list[int] = []
        self.peer_locs: Sequence[int] = PeerLocs(table, admit.handle)
        self.peer = 0
        self.arrived_loc = len(admit.prompt_ids)
        self.arrived_ns = 0
        self.degraded = False
        self.sampling = admit.sampling
        self.threshold = admit.threshold
        self.stays = admit.stays
        self.max_tokens = admit.max_tokens
        self.stop_token_ids = frozenset(admit.stop_token_ids)
        self.seq: int | None = None
        self.given = 0

    @property
    def seed(self) -> int:
        """The request's random seed."""
        return self.sampling.seed

    @property
    def loc(self) -> int:
        """Tokens of the request known here, a token just sampled included."""
        return len(self.origin_input_ids) + len(self.output_ids)

    def tokens_from(self, start: int) -> list[int]:
        """Prompt and output tokens from position `start`."""
        prompt = len(self.origin_input_ids)
        if start >= prompt:
            return self.output_ids[start - prompt :]
        return self.origin_input_ids[start:] + self.output_ids

    def keep(self, loc: int) -> None:
        """Forget output tokens beyond the first `loc` tokens of the request."""
        del self.output_ids[loc - len(self.origin_input_ids) :]

    def finish(self) -> int:
        """Index into FINISHES for the tokens known here."""
        if self.output_ids and self.output_ids[-1] in self.stop_token_ids:
            return 1
        return 2 if len(self.output_ids) >= self.max_tokens else 0

    def finished(self) -> bool:
        """Whether the tokens known here end the request."""
        return self.finish() != 0
