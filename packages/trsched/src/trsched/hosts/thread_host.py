"""Subservers as threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from trcore import PeerRing
from trsched.engines.base import Engine
from trsched.engines.open_engine import open_engine
from trsched.errors import ConfigError, EngineError
from trsched.hosts.host import REPORTS_BYTES, Report
from trsched.loops.subserver import Subserver
from trsched.plan.check import GroupPlan
from trsched.shared.arena import Arena
from trsched.shared.state import SharedState
from trsched.wire.peers import Peers


class ThreadHost:
    """A `Host` of threads. An engine must let go of the interpreter while it steps."""

    def __init__(self, plan: GroupPlan, engines: Sequence[Engine]) -> None:
        self.inboxes = [PeerRing.heap(plan.inbox_bytes) for _ in engines]
        self.reports = PeerRing.heap(REPORTS_BYTES)
        self.shared = SharedState(
            plan, Arena(), threading.Lock(), lambda index: self.inboxes[index].wake()
        )
        self._threads = []
        for index, engine in enumerate(engines):
            peers = Peers(index, self.inboxes, self.reports)
            subserver = Subserver(index, plan, engine, peers, self.shared)
            name = f"subserver-{index}"
            self._threads.append(threading.Thread(target=subserver.run, name=name, daemon=True))

    @classmethod
    def open(cls, plan: GroupPlan, report: Report) -> ThreadHost:
        """Load the engines one after another. Raises ConfigError."""
        engines: list[Engine] = []
        try:
            for index, model in enumerate(plan.config.models):
                try:
                    engines.append(open_engine(plan, index, report))
                except EngineError as error:
                    raise ConfigError(
                        f"models[{index}]", f"{model.name!r} cannot be loaded: {error}"
                    ) from error
        except BaseException:
            for engine in engines:
                engine.close()
            raise
        return cls(plan, engines)

    def start(self) -> None:
        """Run the loops."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until all have ended, after each was sent `Stop`, and free what there is."""
        for thread in self._threads:
            thread.join()
