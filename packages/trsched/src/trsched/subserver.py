"""A subserver: one model of a group with its engine, its router, its inbox and its loops.

Three loops per subserver (TokenRouter, arXiv 2610.12242, section 4): the inter-model loop and the
decode loop live here and take turns on one thread; the client loop, shared by all subservers of the
group, is in `client_loop.py`. What makes the subserver asynchronous is the ring between them: peers
and the group write into it at any time, also while a step runs, and never wait for this thread. A
thread of its own for the inter-model loop would only contend for the interpreter: what arrives
during a step cannot join it anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from trcore import PeerRing, effective_thresholds
from trrouters import BaseRouter
from trsched.codec import decode_inbound
from trsched.decode_loop import DecodeLoop
from trsched.engines.base import Engine
from trsched.inter_model_loop import InterModelLoop
from trsched.messages import Died, Stop
from trsched.peers import Peers
from trsched.request import ModelSampling
from trsched.request_table import RequestTable
from trsched.router_guard import RouterGuard
from trsched.stats import SubserverStats


class ActiveCount:
    """N, the requests now active in the group; written by the client loop, read by subservers."""

    def __init__(self) -> None:
        self.value = 0


class Subserver:
    """Runs on its own thread between `run_in_thread` and a `Stop` message.

    slots: most requests of the group at once. thresholds: B of every subserver, as configured.
    degrade: whether requests that want a dead peer go on here. forgiving: whether requests go on
    here when the router fails. sampling: the model's own.
    """

    def __init__(
        self,
        index: int,
        engine: Engine,
        router: BaseRouter,
        inbox: PeerRing,
        peers: Peers,
        *,
        slots: int,
        thresholds: Sequence[int],
        active: ActiveCount,
        degrade: bool,
        forgiving: bool,
        sampling: ModelSampling,
    ) -> None:
        self.index = index
        self.stats = SubserverStats(name=engine.spec.name)
        self._engine = engine
        self._inbox = inbox
        self._peers = peers
        self._thresholds = thresholds
        self._active = active
        self._table = RequestTable(slots, router.n_models, engine, self.stats, sampling)
        guard = RouterGuard(index, router, self._table, peers, self.stats, forgiving=forgiving)
        self._inter_model = InterModelLoop(index, guard, self._table, peers, self.stats)
        self._decode = DecodeLoop(
            index, engine, guard, self._table, peers, self.stats, degrade=degrade
        )
        self._thread: threading.Thread | None = None

    def run_in_thread(self) -> None:
        """Start the loops."""
        self._thread = threading.Thread(
            target=self.run, name=f"subserver-{self.index}", daemon=True
        )
        self._thread.start()

    def join(self) -> None:
        """Wait until the loops have ended."""
        if self._thread is not None:
            self._thread.join()

    def run(self) -> None:
        """Both loops until `Stop`; an error in the engine or in the loops is reported as death."""
        try:
            while self.turn():
                pass
        except BaseException as error:  # noqa: BLE001 - reported, not swallowed
            self.stats.alive = False
            self._peers.report(Died(self.index, f"{type(error).__name__}: {error}"))
        finally:
            self._engine.close()

    def turn(self) -> bool:
        """One turn of both loops; False after `Stop`. Sleeps on the inbox when idle."""
        for record in self._inbox.drain():
            message = decode_inbound(record)
            if isinstance(message, Stop):
                self._table.record_states()
                return False
            self._inter_model.handle(message)
        batch = self._decode.start(self._threshold())
        if batch is None:
            self._table.record_states()
            self._inbox.wait(None)
            return True
        result = self._decode.step(batch)
        self._decode.finish(batch, result)
        self._table.record_states()
        return True

    def _threshold(self) -> int:
        effective = effective_thresholds(self._thresholds, self._active.value)[self.index]
        self.stats.threshold = effective
        return effective
