"""Memory that processes share without giving it a name, and a lock in it."""

from __future__ import annotations

import fcntl
import os
import threading
from mmap import mmap
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType

_MEMORY = Path("/dev/shm")


class SharedBlock:
    """Zeroed bytes behind a descriptor; children that inherit it map the same memory.

    Nobody can find it by name, so nothing is left behind however its users end.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.memory = mmap(descriptor, os.fstat(descriptor).st_size)

    @classmethod
    def create(cls, size: int) -> SharedBlock:
        """Raises OSError when there is no room."""
        folder = _MEMORY if _MEMORY.is_dir() else None  # a file on a disk would do, too
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(max(size, 1)))  # takes the room now: later it would be a SIGBUS
            file.flush()
            return cls(os.dup(file.fileno()))

    def close(self) -> None:
        """Give up the descriptor; what was taken from the memory stays usable here."""
        os.close(self.descriptor)


class ProcessMutex:
    """Excludes all threads of all processes that made one on the same block.

    The system releases it when its holder dies: what it protects must be sound after every store.
    One per process and block: POSIX gives a file's locks to the process, not to its threads.
    """

    def __init__(self, block: SharedBlock) -> None:
        self._descriptor = block.descriptor
        self._threads = threading.Lock()

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        self._threads.release()
