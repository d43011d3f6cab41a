"""The core of token-level routing: records, requests, delayed batching. Needs numpy only."""

from importlib.metadata import version
from pathlib import Path

from trcore._core import (
    Assigned,
    AssignRules,
    BestThresholds,
    ChainSolution,
    InstanceView,
    PeerRing,
    PendingTable,
    ReducibleChainError,
    SearchedThresholds,
    Simulated,
    State,
    StateSpaceTooLargeError,
    WhyNot,
    assign,
    best_thresholds,
    deadlock_free,
    effective_thresholds,
    may_start,
    prices,
    remove_stale_segments,
    search_thresholds,
    simulate,
    solve,
    uniform,
    why_not,
)

__all__ = [
    "AssignRules",
    "Assigned",
    "BestThresholds",
    "ChainSolution",
    "InstanceView",
    "PeerRing",
    "PendingTable",
    "ReducibleChainError",
    "SearchedThresholds",
    "Simulated",
    "State",
    "StateSpaceTooLargeError",
    "WhyNot",
    "assign",
    "best_thresholds",
    "deadlock_free",
    "effective_thresholds",
    "get_include",
    "may_start",
    "prices",
    "remove_stale_segments",
    "search_thresholds",
    "simulate",
    "solve",
    "uniform",
    "why_not",
]

__version__ = version("trcore")


def get_include() -> str:
    """Folder to pass to a C++20 compiler with -I for ``#include "trcore/peer_ring.hpp"``.

    ``peer_ring.hpp``, ``batching.hpp`` and what they include need nothing else; the other headers
    have bodies in ``libtrcore_core.a``, in the folder ``lib`` beside this one.
    """
    import trcore._core

    return str(Path(trcore._core.__file__).parent / "include")
