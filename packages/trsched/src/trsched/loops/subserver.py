"""A subserver: one model of a group with its engine, its router, its inbox and its loops.

Three loops per subserver (TokenRouter, arXiv 2610.12242, section 4): the inter-model loop and the
decode loop live here and take turns on one thread; the client loop, shared by all subservers of the
group, is in `client_loop.py`. What makes the subserver asynchronous is the ring between them: peers
and the group write into it at any time, also while a step runs, and never wait for this thread. A
thread of its own for the inter-model loop would only contend for the interpreter: what arrives
during a step cannot join it anyway.
"""

from __future__ import annotations

from trsched.engines.base import Engine
from trsched.loops.batch_start import batch_start
from trsched.loops.decode_loop import DecodeLoop
from trsched.loops.inter_model_loop import InterModelLoop
from trsched.loops.request_table import RequestTable
from trsched.loops.router_guard import RouterGuard
from trsched.plan.check import GroupPlan
from trsched.shared.state import SharedState
from trsched.wire.codec import decode_inbound
from trsched.wire.messages import Died, Stop
from trsched.wire.peers import Peers


class Subserver:
    """Model `index` of the plan, on the engine that has it loaded; `run` ends at a `Stop` message.

    shared: among all subservers of the group.
    """

    def __init__(
        self, index: int, plan: GroupPlan, engine: Engine, peers: Peers, shared: SharedState
    ) -> None:
        config, router = plan.config, plan.routers[index]
        stats = shared.stats[index]
        self.index = index
        self.stats = stats
        self._engine = engine
        self._inbox = peers.inbox
        self._peers = peers
        self._batch_start = batch_start(index, shared)
        self._table = RequestTable(
            plan.max_active,
            router.n_models,
            engine,
            stats,
            config.models[index].sampling,
            keep_kv=config.handoff == "resume",
        )
        forgiving = config.on_router_error == "continue"
        guard = RouterGuard(index, router, self._table, peers, stats, forgiving=forgiving)
        self._inter_model = InterModelLoop(index, guard, self._table, peers, stats)
        self._decode = DecodeLoop(
            index, engine, guard, self._table, peers, stats, degrade=plan.degrades
        )

    def run(self) -> None:
        """Both loops until `Stop`; an error in the engine or in the loops is reported as death."""
        try:
            while self.turn():
                pass
        except BaseException as error:  # noqa: BLE001 - reported, not swallowed
            self.stats.alive = False
            self._batch_start.end(0)
            self._peers.report(Died(self.index, f"{type(error).__name__}: {error}"))
        finally:
            self._engine.close()

    def turn(self) -> bool:
        """One turn of both loops; False after `Stop`. Sleeps on the inbox when idle."""
        if not self._take_messages():
            return False
        stepped = False
        if self._batch_start.begin(len(self._table.ready), at_once=self._table.staying > 0):
            batch = self._decode.start()
            if batch is not None:
                self._decode.finish(batch, self._decode.step(batch))
                stepped = True
            self._batch_start.end(len(self._table.ready))
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
