"""A group's end of one subserver process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import suppress

from trcore import PeerRing, remove_stale_segments
from trsched.hosts.process_messages import Channel, LoadFailed, Message, Run, Task

_MODULE = "trsched.hosts.subserver_process"


class ChildProcess:
    """One rank of one model, started at once. Closing the channel, or dying, ends the process.

    It gets nothing but its task and the descriptors it needs, and starts from a fresh interpreter:
    nothing of the user's program runs in it, and no thread or lock of this process is copied.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.inbox: PeerRing | None = None
        ours, theirs = multiprocessing.Pipe()
        self.channel = Channel(ours)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=(theirs.fileno(), task.block),
                start_new_session=True,  # a terminal's Ctrl-C is for this process alone
            )
        try:
            self.channel.send(task)
        except BaseException:
            self.kill()
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def run(self, message: Run) -> None:
        """Let it start. One that has just died is missed when it is to answer."""
        with suppress(OSError):
            self.channel.send(message)

    def receive(self) -> Message:
        """What it has to say while it loads. Raises EOFError when it has ended."""
        return self.channel.receive()

    def wait(self) -> int:
        """Wait for its end; the exit status."""
        return self._process.wait()

    def last_words(self) -> str:
        """Why it has ended, as well as can be said."""
        with suppress(EOFError, OSError):
            while self.channel.connection.poll():
                message = self.channel.receive()
                if isinstance(message, LoadFailed):
                    return message.error
        status = self.wait()
        if status < 0:
            return f"process {self.pid} was killed by {signal.Signals(-status).name}"
        return f"process {self.pid} has ended with status {status}"

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        remove_stale_segments()

    def close(self) -> None:
        """Of a process that has ended: free what is held of it here."""
        if self.inbox is not None:
            self.inbox.close()
        self.channel.connection.close()
