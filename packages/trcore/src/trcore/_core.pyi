"""The C++ core. Kept by hand; ``tests/test_stub.py`` compares it with the module."""

from collections.abc import Sequence
from enum import IntEnum
from types import TracebackType
from typing import Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Buffer

@final
class PeerRing:
    """Bounded queue of byte records: many producers, one consumer, first in first out.

    Any thread or process may push; one thread at a time may drain. After ``fork()`` a ring opened
    before it is unusable in the child (RuntimeError): attach by name instead. Every method but
    ``close`` raises ValueError once the ring is closed.
    """

    @staticmethod
    def heap(capacity_bytes: int) -> PeerRing:
        """A ring for the threads of this process.

        ``capacity_bytes`` (1 to 2**29) is rounded up to a power of two, at least 1024. A record of
        n bytes takes n + 4 bytes, rounded up to 64. ValueError outside the range.
        """
    @staticmethod
    def create(name: str, capacity_bytes: int) -> PeerRing:
        """A ring in POSIX shared memory, mode 0600; this process reads it.

        ``name``: 1 to 64 of ``A-Z a-z 0-9 _ . -``, else ValueError; FileExistsError if this
        process has one of that name; OSError if there is no room. Unlinked at ``close()`` or exit;
        leftovers of killed processes of this user are removed first.
        """
    @staticmethod
    def attach(name: str) -> PeerRing:
        """A ring that another process created, to push only. ``name`` is the creator's ``name``.

        FileNotFoundError: no such segment. ConnectionRefusedError: its creator is dead or in
        another pid namespace. ValueError: no ring, or one of another trcore version. RuntimeError:
        64 living producers already.
        """
    def push(self, record: Buffer) -> bool:
        """Add one record (contiguous bytes); False if there is no room now.

        ValueError if it is longer than ``max_record_bytes``, BrokenPipeError if the consumer has
        closed the ring, RuntimeError if 64 living processes push already.
        """
    def push_many(self, records: Sequence[bytes], timeout: float = 0.0) -> int:
        """Add records in order, waking the consumer once; returns how many were accepted.

        Waits up to ``timeout`` seconds in all for room, with the GIL released. Fewer than all come
        in when time is up or the consumer's process has died. A record that is too long raises
        ValueError after those before it were added. Errors as in ``push``.
        """
    def drain(self, max_records: int = 0) -> list[bytes]:
        """Take up to ``max_records`` records in order (0: all that are there).

        RuntimeError in an attached ring, or while another thread drains.
        """
    def wait(self, timeout: float | None) -> bool:
        """Wait until ``drain`` has something to do or ``wake`` was called, with the GIL released.

        False after ``timeout`` seconds (None: never). In shared memory it spins for up to 10 µs
        before it sleeps, if that has helped lately. May return True without a record after a
        producer died in its push: draining then makes the room it held free. RuntimeError in an
        attached ring.
        """
    def wake(self) -> None:
        """End one ``wait``, the present or the next one. From any thread or attached process."""
    def close(self) -> None:
        """End all waits, tell the producers, take the name away. Idempotent."""
    @property
    def capacity_bytes(self) -> int:
        """Bytes for records, headers and padding to 64 included."""
    @property
    def max_record_bytes(self) -> int:
        """Longest record: it needs an empty ring."""
    @property
    def name(self) -> str:
        """Full segment name for ``attach``; empty for a ring on the heap."""
    @property
    def abandoned(self) -> int:
        """Records given up because their producer died between reserving and publishing."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

class State(IntEnum):
    """What a slot of a PendingTable holds, and what a handle means."""

    FREE = 0
    RUNNING = 1
    PENDING = 2
    FINISHED = 3
    STALE = 4

@final
class PendingTable:
    """Live requests by handle; every change of state is one compare-and-swap.

    A handle (0 to 2**63 - 1) names one use of one slot. After ``release`` it is stale: every call
    with it changes nothing and says so. All methods may be called from any thread.
    """

    def __init__(self, slots: int, peers: int) -> None:
        """``slots`` 1 to 2**24, ``peers`` 1 to 2**10, else ValueError."""
    def allocate(self, state: State = State.RUNNING, deadline: float = ...) -> int:
        """Handle of a new request, -1 when no slot is free.

        ``state`` RUNNING or PENDING, else ValueError. ``deadline`` in seconds of the caller's
        clock, infinite by default.
        """
    def adopt(self, handle: int, state: State, deadline: float = ...) -> bool:
        """Take a handle that another table allocated into this one.

        False if its slot is in use here or outside the table, or if the handle is older than the
        slot's last use.
        """
    def state(self, handle: int) -> State:
        """RUNNING, PENDING or FINISHED; STALE if the handle is no longer (or was never) alive."""
    def transition(self, handle: int, old: State, new: State) -> bool:
        """True if this call made the change; of several at once exactly one does.

        ValueError unless RUNNING to PENDING or back, or either to FINISHED.
        """
    def set_anchor(self, handle: int, peer: int, loc: int) -> bool:
        """Note up to which location (tokens, below 2**32) ``peer`` knows the sequence.

        False for a stale handle. IndexError if there is no such peer.
        """
    def anchor(self, handle: int, peer: int) -> int:
        """The location noted, 0 if none was, -1 for a stale handle."""
    def expire(self, now: float, out: NDArray[np.int64]) -> int:
        """Write the handles of running and pending requests with deadline <= ``now`` to ``out``.

        As many as fit, in slot order; returns their number and changes nothing else. ValueError
        unless ``out`` is a writable, contiguous, one-dimensional int64 array.
        """
    def release(self, handle: int) -> bool:
        """Free the slot of a FINISHED request; False otherwise."""
    def counts(self) -> tuple[int, int, int, int]:
        """Slots that are (free, running, pending, finished)."""
    @staticmethod
    def slot(handle: int) -> int:
        """The slot a handle names, -1 for a negative handle."""
    @property
    def slots(self) -> int: ...
    @property
    def peers(self) -> int: ...

def remove_stale_segments() -> list[str]:
    """Unlink this user's segments whose creating process is dead; returns their names.

    Every ``PeerRing.create`` does so too. Linux only; elsewhere it finds none.
    """

def deadlock_free(thresholds: Sequence[int], active: int) -> bool:
    """Whether some model can always start: sum(B_i - 1) < N, N = requests now active.

    If every model waited with at most B_i - 1 requests, all together would hold at most
    sum(B_i - 1) requests; with N above that, one of them has B_i. A threshold below 1 counts as 1.
    """

def effective_thresholds(thresholds: Sequence[int], active: int) -> list[int]:
    """The given thresholds, the largest of them lowered one by one until `active` cannot deadlock.

    To be evaluated again at every arrival and finish. With no active request all are 1.
    """

def may_start(waiting: int, threshold: int) -> bool:
    """Whether an idle model with `waiting` requests starts a batch (it then takes all of them).

    Delayed batching (TokenRouter, arXiv 2610.12242, section 4): a batch starts only when B requests
    wait, so that a hand-off that arrives a moment later shares the forward.
    """

class StateSpaceTooLargeError(ValueError):
    """The chain has more than `max_states` states (or 64 times as many transitions)."""

class ReducibleChainError(ValueError):
    """The chain has several recurrent classes: its throughput in the long run depends on chance."""

@final
class ChainSolution:
    """What `solve` found."""

    @property
    def throughput(self) -> float:
        """Tokens committed per second."""
    @property
    def busy(self) -> tuple[float, ...]:
        """Share of the time that each model runs."""
    @property
    def batch(self) -> tuple[float, ...]:
        """Mean batch of each model; 0 for one that never runs."""
    @property
    def waiting(self) -> tuple[float, ...]:
        """Mean seconds from a request's arrival at each model to the start of its batch."""
    @property
    def quantum(self) -> float:
        """Seconds."""
    @property
    def states(self) -> int:
        """States that can be reached from the first one."""
    @property
    def transitions(self) -> int:
        """Transitions between different states."""
    @property
    def sweeps(self) -> int:
        """Passes over all transitions that the solution took."""

def solve(
    P: ArrayLike,  # noqa: N803
    C: ArrayLike,  # noqa: N803
    L: Sequence[ArrayLike],  # noqa: N803
    N: int,  # noqa: N803
    B: Sequence[int],  # noqa: N803
    *,
    quantum: float | None = None,
    max_states: int = 200_000,
    exclusive: bool = False,
) -> ChainSolution:
    """Throughput of N requests under delayed batching with thresholds B, as a Markov chain.

    The chain of TokenRouter (arXiv 2610.12242, appendix "math_model"), embedded at batch
    completions. All requests begin waiting at model 0. When a model completes, each request of its
    batch goes from i to j with probability ``P[i, j]`` and commits ``C[i, j]`` tokens; models that
    complete in the same quantum all do so before any starts; then each idle model where ``B[i]``
    requests wait takes all that wait.

    P: [M, M], rows sum to 1. C: [M, M], 0 or more, not necessarily whole. L: for each model the
    seconds of a step by batch size 1, 2, ...; the last value holds beyond. N: 1 or more. B: [M],
    1 to N each, sum(B - 1) < N.

    quantum: seconds that times are rounded to (each at least one). None: the coarsest that divides
    the shortest step into 1 to 64 and changes no step by more than 0.1 %, else the one of those
    that changes them least; 0.3 % and 1 % while the chain has more than `max_states` states.
    exclusive: the models share one device, so one runs at a time; when it is
    free, the models that may start take turns, beginning after the one that ran last.

    Throughput is right to 9 digits for the given quantum. Runs with the GIL released.

    ValueError names the argument that is wrong. StateSpaceTooLargeError: use `simulate`.
    ReducibleChainError: more than one recurrent class, as with two models that keep what they get.
    """

@final
class BestThresholds:
    """What `best_thresholds` found."""

    @property
    def thresholds(self) -> tuple[int, ...]:
        """[M]"""
    @property
    def throughput(self) -> float:
        """Tokens per second with these."""
    @property
    def candidates(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """All feasible thresholds, [count, M] in lexicographic order, and their throughput."""
    @property
    def largest_chain(self) -> int:
        """States of the largest of the chains."""
    @property
    def quantum(self) -> float:
        """Seconds, the same for all candidates."""

def best_thresholds(
    P: ArrayLike,  # noqa: N803
    C: ArrayLike,  # noqa: N803
    L: Sequence[ArrayLike],  # noqa: N803
    N: int,  # noqa: N803
    *,
    quantum: float | None = None,
    max_states: int = 200_000,
    exclusive: bool = False,
) -> BestThresholds:
    """The thresholds with the highest throughput: `solve` for all feasible B, one after another.

    Arguments and errors as for `solve`. Of those within 1e-9 of the best (relative) it is the one
    with the smallest sum, then the first in order. ValueError if more than 100,000 B are feasible.
    """

@final
class Simulated:
    """What `simulate` saw, after the run had warmed up."""

    @property
    def throughput(self) -> float:
        """Tokens committed per second."""
    @property
    def half_width(self) -> float:
        """Of a 95 % confidence interval, by batch means; infinite for a very short run."""
    @property
    def busy(self) -> tuple[float, ...]:
        """Share of the time that each model runs."""
    @property
    def batch(self) -> tuple[float, ...]:
        """Mean batch of each model; 0 for one that never ran."""
    @property
    def waiting(self) -> tuple[float, ...]:
        """Mean seconds from a request's arrival at each model to the start of its batch."""
    @property
    def seconds(self) -> float:
        """Virtual time."""
    @property
    def tokens(self) -> float:
        """Committed in that time."""
    @property
    def steps(self) -> int:
        """Requests in batches, in that time."""

def simulate(
    P: ArrayLike,  # noqa: N803
    C: ArrayLike,  # noqa: N803
    L: Sequence[ArrayLike],  # noqa: N803
    N: int,  # noqa: N803
    B: Sequence[int],  # noqa: N803
    *,
    tokens: int = 100_000,
    seed: int = 0,
    exclusive: bool = False,
    turns: Literal["oldest", "next"] = "oldest",
    extend: ArrayLike = 0.0,
) -> Simulated:
    """What `solve` computes, by discrete events on a virtual clock, without quanta.

    P: [M, M], or [K, M, M] where routing depends on how long a request has been at its model:
    ``P[k]`` is for its (k+1)-th step since it arrived there, the last row for all later ones.
    C, L, N (up to 2**20), B as for `solve`.

    tokens: how many to commit in the measured part, after 1/8 as many that aren't counted; it ends
    sooner, after 64 steps for each of them, where hardly any are committed. exclusive: one model
    runs at a time. turns: which one when several may: ``"oldest"``, the one whose first request
    has waited longest, or ``"next"``, in turn, as `solve` does. extend: seconds, one number or
    [M], for each token that was committed since the request's last step at the model, but one.

    A request's n-th step is routed by a draw that depends on (seed, request, n) alone: different B
    see the same random numbers. Runs with the GIL released. ValueError names the argument.
    """

@final
class SearchedThresholds:
    """What `search_thresholds` found."""

    @property
    def thresholds(self) -> tuple[int, ...]:
        """[M]"""
    @property
    def throughput(self) -> float:
        """Tokens per second with these, by the draws of the search, which flatter it a little."""
    @property
    def half_width(self) -> float:
        """Of its 95 % confidence interval."""
    @property
    def candidates(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Thresholds simulated, [count, M] in the order of the search, and their throughput."""

def search_thresholds(
    P: ArrayLike,  # noqa: N803
    C: ArrayLike,  # noqa: N803
    L: Sequence[ArrayLike],  # noqa: N803
    N: int,  # noqa: N803
    *,
    tokens: int = 20_000,
    seed: int = 0,
    exclusive: bool = False,
    turns: Literal["oldest", "next"] = "oldest",
    extend: ArrayLike = 0.0,
    start: Sequence[int] | None = None,
    max_evaluations: int = 256,
) -> SearchedThresholds:
    """Good thresholds by simulation, all with the same draws; arguments as for `simulate`.

    All feasible B if there are at most `max_evaluations`. Else uphill from `start`, from all 1 and
    from thresholds that favour one model: one changes by 1, 2, 4, ..., or two in opposite
    directions, as long as that helps. Ties as in `best_thresholds`. ValueError names the argument.
    """

def uniform(seed: int, position: int, stream: int) -> float:
    """A number in [0, 1) that depends on its arguments alone (0 to 2**64 - 1; else TypeError).

    Philox4x64-10 (Salmon et al., SC'11): what numpy's ``Philox(key=seed, counter=[position, stream,
    0, 0])`` gives first, in a fraction of a microsecond.
    """
