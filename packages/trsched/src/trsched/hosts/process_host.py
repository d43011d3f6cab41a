"""Subservers as processes, and one more process for every further rank of a model."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Sequence
from multiprocessing.connection import wait

from trcore import PeerRing
from trsched.errors import ConfigError
from trsched.hosts.child_process import ChildProcess
from trsched.hosts.host import REPORTS_BYTES, Report
from trsched.hosts.process_messages import (
    ENDED,
    Joined,
    LoadFailed,
    LoadProgress,
    Message,
    Ready,
    Run,
    Task,
)
from trsched.plan.check import GroupPlan
from trsched.shared.arena import Arena
from trsched.shared.block import ProcessMutex, SharedBlock
from trsched.shared.state import SharedState
from trsched.wire.codec import encode_report
from trsched.wire.messages import Died
from trsched.wire.patient_push import push_patiently

_numbers = itertools.count()
_PATIENCE_S = 30.0
"""An engine ends its step before it looks at `Stop`."""


class ProcessHost:
    """A `Host` of processes, watched from `start` on; when one of a model's dies, all do."""

    def __init__(self, plan: GroupPlan) -> None:
        self._config = plan.config
        self.inboxes: list[PeerRing] = []
        self.reports = PeerRing.create(f"reports-{next(_numbers)}", REPORTS_BYTES)
        self._block = SharedBlock.create(SharedState.bytes(plan))
        self.shared = SharedState(
            plan,
            Arena(self._block.memory),
            ProcessMutex(self._block),
            lambda index: self.inboxes[index].wake(),
        )
        self.teams: list[list[ChildProcess]] = []
        self._watchers: list[tuple[threading.Thread, ChildProcess]] = []

    @classmethod
    def open(cls, plan: GroupPlan, report: Report) -> ProcessHost:
        """Load all engines at the same time. Raises ConfigError."""
        host = cls(plan)
        try:
            host._begin()
            host._hear(Ready, report)
            host._connect()
            host._hear(Joined, report)
        except BaseException:
            for child in itertools.chain(*host.teams):
                child.kill()
            host._free()
            raise
        return host

    @property
    def process_ids(self) -> list[list[int]]:
        """By model and rank."""
        return [[child.pid for child in team] for team in self.teams]

    def start(self) -> None:
        """Run the loops."""
        for index, team in enumerate(self.teams):
            death = _Death(index, team, self.shared, self.reports)
            for child in team:
                watcher = threading.Thread(
                    target=death.watch, args=(child,), name=f"watcher-{child.pid}", daemon=True
                )
                self._watchers.append((watcher, child))
                watcher.start()

    def join(self) -> None:
        """Wait until all have ended, after each was sent `Stop`, and free what there is."""
        for watcher, child in self._watchers:
            watcher.join(_PATIENCE_S)
            if watcher.is_alive():
                child.kill()
                watcher.join()
        self._free()

    def _begin(self) -> None:
        for index, model in enumerate(self._config.models):
            self.teams.append([])
            port = _free_port() if model.ranks > 1 else 0
            for rank in range(model.ranks):
                task = Task(
                    self._config, index, rank, self.reports.name, self._block.descriptor, port
                )
                try:
                    self.teams[-1].append(ChildProcess(task))
                except (
                    TypeError,
                    OverflowError,
                ) as error:  # what a configuration in Python may hold
                    raise ConfigError(
                        "router.settings", f"a process can only be given plain data: {error}"
                    ) from error

    def _connect(self) -> None:
        names = []
        for team in self.teams:
            assert team[0].inbox is not None
            self.inboxes.append(team[0].inbox)
            names.append(team[0].inbox.name)
        for team in self.teams:
            followers = [child.inbox.name for child in team[1:] if child.inbox is not None]
            for child in team:
                child.run(Run(names, followers))

    def _hear(self, last: type[Ready | Joined], report: Report) -> None:
        """Listen to all processes until each has said that."""
        silent = list(itertools.chain(*self.teams))
        while silent:
            speaking = wait([child.channel.connection for child in silent])
            for child in [each for each in silent if each.channel.connection in speaking]:
                if isinstance(self._heard(child, report), last):
                    silent.remove(child)

    def _heard(self, child: ChildProcess, report: Report) -> Message:
        """The next message of a process. Raises ConfigError if it has failed or ended."""
        index, rank = child.task.index, child.task.rank
        name = self._config.models[index].name
        try:
            message = child.receive()
            if isinstance(message, Ready):
                child.inbox = PeerRing.attach(message.inbox)
        except (EOFError, OSError):  # it has ended
            message = LoadFailed(None, child.last_words())
        match message:
            case LoadProgress(line):
                if rank == 0:
                    report(line)
            case Ready():
                part = f", rank {rank}" if self._config.models[index].ranks > 1 else ""
                report(f"model {index} {name}{part}: process {child.pid}")
            case LoadFailed(field, error):
                raise ConfigError(
                    field or f"models[{index}]",
                    error if field else f"{name!r} cannot be loaded: {error}",
                )
        return message

    def _free(self) -> None:
        for child in itertools.chain(*self.teams):
            child.close()
        self.reports.close()
        self._block.close()


class _Death:
    """One model's processes: the first that dies takes the others along, and the group is told."""

    def __init__(
        self, index: int, team: Sequence[ChildProcess], shared: SharedState, reports: PeerRing
    ) -> None:
        self._index = index
        self._team = team
        self._shared = shared
        self._reports = reports
        self._lock = threading.Lock()
        self._told = False

    def watch(self, child: ChildProcess) -> None:
        """Wait for a process's end and see to it, if it did not end as it should."""
        if child.wait() == ENDED:
            return
        with self._lock:
            if self._told:
                return
            self._told = True
        words = child.last_words()
        for each in self._team:
            each.kill()
        self._shared.bury(self._index)
        error = f"rank {child.task.rank}: {words}" if child.task.rank else words
        push_patiently(self._reports, encode_report(Died(self._index, error, abrupt=True)))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
