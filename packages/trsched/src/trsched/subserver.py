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
from contextlib import AbstractContextManager

from trcore import PeerRing
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
from trsched.starts import Starts
from trsched.stats import SubserverStats


class Subserver:
    """Runs on its own thread between `run_in_thread` and a `Stop` message.

    starts: says when a batch may start. turns: held from a batch's choice to its last hand-off,
    by one subserver of a device at a time. slots: most requests at once. keep_kv: whether
    a request keeps its KV while it is at a peer. degrade: whether requests that want a dead peer go
    on here. forgiving: whether requests go on here when the router fails. sampling: the model's
    own.
    """

    def __init__(
        self,
        index: int,
        engine: Engine,
        router: BaseRouter,
        inbox: PeerRing,
        peers: Peers,
        starts: Starts,
        turns: AbstractContextManager[None],
        stats: SubserverStats,
        *,
        slots: int,
        keep_kv: bool,
        degrade: bool,
        forgiving: bool,
        sampling: ModelSampling,
    ) -> None:
        self.index = index
        self.stats = stats
        self._engine = engine
        self._inbox = inbox
        self._peers = peers
        self._starts = starts
        self._turns = turns
        self._table = RequestTable(slots, router.n_models, engine, stats, sampling, keep_kv=keep_kv)
        guard = RouterGuard(index, router, self._table, peers, stats, forgiving=forgiving)
        self._inter_model = InterModelLoop(index, guard, self._table, peers, stats)
        self._decode = DecodeLoop(index, engine, guard, self._table, peers, stats, degrade=degrade)
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
            self._starts.end(0)
            self._peers.report(Died(self.index, f"{type(error).__name__}: {error}"))
        finally:
            self._engine.close()

    def turn(self) -> bool:
        """One turn of both loops; False after `Stop`. Sleeps on the inbox when idle."""
        if not self._take_messages():
            return False
        stepped = False
        if self._starts.begin(len(self._table.ready)):
            with self._turns:
                if not self._take_messages():  # what came during others' turns joins the batch
                    return False
                batch = self._decode.start()
                if batch is not None:
                    self._decode.finish(batch, self._decode.step(batch))
                    stepped = True
            self._starts.end(len(self._table.ready))
        self._table.record_states()
        if not stepped:
            self._inbox.wait(None)
        return True

    def _take_messages(self) -> bool:
        """Apply what is in the inbox; False at `Stop`."""
        for record in self._inbox.drain():
            message = decode_inbound(record)
            if isinstance(message, Stop):
                self._table.record_states()
                return False
            self._inter_model.handle(message)
        return True
