"""A request as the router of one subserver sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class RoutedRequest(Protocol):
    """One request in one subserver, between a step and the routing decision.

    The token that the step just sampled is the last of `output_ids`; it is final only once the
    router lets the request stay, or sends it on with that token kept.
    """

    @property
    def rid(self) -> int:
        """Handle of the client request, the same in every subserver."""

    @property
    def seed(self) -> int:
        """The request's own random seed, 64 bits unsigned."""

    @property
    def threshold(self) -> float | None:
        """The request's own value of the router's `threshold_setting`; None: the router's."""

    @property
    def origin_input_ids(self) -> Sequence[int]:
        """Prompt token ids."""

    @property
    def output_ids(self) -> Sequence[int]:
        """Output token ids known here, whichever model made them; the last one is just sampled."""

    @property
    def peer_locs(self) -> Sequence[int]:
        """Tokens (prompt and output) peer k is known to hold, k = 1 … M-1; entry 0 is unused."""

    @property
    def peer(self) -> int:
        """Where `route` decided to send the request; 0 outside of `send`."""

    @property
    def arrived_loc(self) -> int:
        """Tokens that the request had when it last came here (the prompt's length at its entry)."""

    def finished(self) -> bool:
        """Whether the tokens up to the last of `output_ids` end the request."""
