"""Shared-memory record ring and request table for token-level routing. Needs numpy only."""

from importlib.metadata import version
from pathlib import Path

from trcore._core import PeerRing, PendingTable, State, remove_stale_segments

__all__ = ["PeerRing", "PendingTable", "State", "get_include", "remove_stale_segments"]

__version__ = version("trcore")


def get_include() -> str:
    """Folder to pass to a C++20 compiler with -I for ``#include "trcore/peer_ring.hpp"``.

    ``peer_ring.hpp`` and what it includes need nothing else; ``shm_segment.hpp``,
    ``ring_owner.hpp`` and ``pending_table.hpp`` have bodies in ``libtrcore_core.a``, in the
    folder ``lib`` beside this one.
    """
    import trcore._core

    return str(Path(trcore._core.__file__).parent / "include")
