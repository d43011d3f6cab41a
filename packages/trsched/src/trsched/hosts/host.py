"""Where a group's subservers run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from trcore import PeerRing
from trsched.shared.state import SharedState

Report = Callable[[str], None]
"""Takes a line for people."""

REPORTS_BYTES = 1 << 20


class Host(Protocol):
    """Subservers with their engines loaded, and what connects them with the group.

    inboxes: a ring a subserver, for the group to write into.
    reports: the ring that the group reads; a subserver that ends otherwise than by `Stop` is `Died`
        there, whoever writes that.
    """

    @property
    def inboxes(self) -> Sequence[PeerRing]: ...

    @property
    def reports(self) -> PeerRing: ...

    @property
    def shared(self) -> SharedState: ...

    def start(self) -> None:
        """Run the loops."""

    def join(self) -> None:
        """Wait until all have ended, after each was sent `Stop`, and free what there is."""
