"""Records between threads and processes."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self, final

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

        FileNotFoundError: no such segment.
        ConnectionRefusedError: its creator is dead or in another pid namespace.
        ValueError: no ring, or one of another trcore version.
        RuntimeError: 64 living producers already.
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

def remove_stale_segments() -> list[str]:
    """Unlink this user's segments whose creating process is dead; returns their names.

    Every ``PeerRing.create`` does so too. Linux only; elsewhere it finds none.
    """
