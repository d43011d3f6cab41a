"""The process of a subserver, or of a further rank of its model: `python -m` this, by its group."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import NoReturn

from trcore import PeerRing, remove_stale_segments
from trsched.engines.base import Engine
from trsched.engines.open_engine import open_engine
from trsched.errors import ConfigError, EngineError
from trsched.hosts.process_messages import (
    DIED,
    ENDED,
    Channel,
    Joined,
    LoadFailed,
    LoadProgress,
    Ready,
    Run,
    Task,
)
from trsched.hosts.ranks import LeaderEngine, follow
from trsched.loops.subserver import Subserver
from trsched.plan.check import GroupPlan, check_group
from trsched.shared.arena import Arena
from trsched.shared.block import ProcessMutex, SharedBlock
from trsched.shared.state import SharedState
from trsched.wire.peers import Peers

_GROUP_ENDS_S = 2.0


def main(connection: int) -> int:
    """Load, serve, end; the exit status.

    connection: descriptor of the channel to the group.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to all when a terminal or unit stops:
        signal.signal(number, signal.SIG_IGN)  # they are for the group, which drains first
    channel = Channel(Connection(connection))
    task = channel.expect(Task)
    lifeline = _Lifeline(channel, task.reports)
    try:
        plan = check_group(task.config)
        inbox = PeerRing.create(f"inbox-{task.index}-{task.rank}", plan.inbox_bytes)
        lifeline.inbox = inbox
        engine = open_engine(
            plan,
            task.index,
            lambda line: channel.send(LoadProgress(line)),
            rank=task.rank,
            meeting_port=task.meeting_port,
        )
        channel.send(Ready(inbox.name))
        run = lifeline.runs.get()
        if task.rank:
            channel.send(Joined())
            follow(engine, inbox)
            return ENDED
        subserver = _subserver(plan, task, engine, inbox, run)
        channel.send(Joined())
        subserver.run()
        return ENDED if subserver.stats.alive else DIED
    except ConfigError as error:
        channel.send(LoadFailed(error.field, error.message))
    except (EngineError, OSError) as error:
        with suppress(OSError):  # the group may have ended
            channel.send(LoadFailed(None, str(error)))
    finally:
        lifeline.let_end()
    return DIED


def _subserver(plan: GroupPlan, task: Task, engine: Engine, inbox: PeerRing, run: Run) -> Subserver:
    inboxes = [
        inbox if index == task.index else PeerRing.attach(name)
        for index, name in enumerate(run.inboxes)
    ]
    block = SharedBlock(task.block)
    shared = SharedState(
        plan,
        Arena(block.memory, is_new=False),
        ProcessMutex(block),
        lambda index: inboxes[index].wake(),
    )
    if run.followers:
        engine = LeaderEngine(engine, [PeerRing.attach(name) for name in run.followers])
    peers = Peers(task.index, inboxes, PeerRing.attach(task.reports))
    return Subserver(task.index, plan, engine, peers, shared)


class _Lifeline:
    """Ends this process when the group's ends, however it does, and leaves no segment behind.

    reports: name of the group's ring.
    inbox: this process's, once there is one.
    runs: gets the group's word to start.
    """

    def __init__(self, channel: Channel, reports: str) -> None:
        self.inbox: PeerRing | None = None
        self.runs: SimpleQueue[Run] = SimpleQueue()
        self._channel = channel
        self._reports = reports
        self._ending = threading.Lock()
        threading.Thread(target=self._hold, name="lifeline", daemon=True).start()

    def _hold(self) -> None:
        with suppress(EOFError):
            while True:
                self.runs.put(self._channel.expect(Run))
        with self._ending:
            deadline = time.monotonic() + _GROUP_ENDS_S
            while self._group_is_there() and time.monotonic() < deadline:
                time.sleep(0.01)
            if self.inbox is not None:
                self.inbox.close()
            os._exit(DIED)

    def let_end(self) -> None:
        """Where the loops have ended because the group has, leave the rest to the lifeline."""
        self._ending.acquire()
        if self.inbox is not None:
            self.inbox.close()

    def _group_is_there(self) -> bool:
        """A process's files are closed, which ends the channel, a moment before it counts as dead.

        Its ring is there as long as it is and, unless it took it away, until somebody else does.
        """
        remove_stale_segments()
        try:
            PeerRing.attach(self._reports).close()
        except FileNotFoundError:
            return False
        except OSError:
            return True  # dead since we looked
        return True


def _end(status: int) -> NoReturn:
    """At once: to take SGLang's modules apart costs the interpreter two seconds of CPU."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _end(main(int(sys.argv[1])))
