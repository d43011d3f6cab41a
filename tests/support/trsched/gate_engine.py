"""An engine whose steps tests hold up, let go or break, and whose KV they can watch."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from trsched.engines.base import Capacity, StepResult
from trsched.engines.profile import ProfileEngine
from trsched.errors import EngineError
from trsched.plan.config import ProfileModel
from trsched.request import SamplingParams

PATIENCE_S = 20.0


class Gate(Protocol):
    """Before an engine's steps. `entered` counts steps begun, `used` sequences that hold KV."""

    @property
    def entered(self) -> float: ...

    @property
    def used(self) -> int: ...

    def hold(self) -> None:
        """Steps wait from now on."""

    def let_go(self, steps: float = math.inf) -> None:
        """So many steps run."""

    def break_down(self) -> None:
        """The step in progress, or the next, ends the engine's subserver."""

    def wait_for(self, condition: Callable[[Gate], bool]) -> None:
        """Block until `condition(self)`; fails after a while."""


class GateEngine:
    """See `Gate`: a profile engine of no latency in this process."""

    def __init__(self, model: ProfileModel, index: int, sequences: int, context: int) -> None:
        self._inner = ProfileEngine(
            model, "test", index=index, sequences=sequences, context=context, clock=_NoTime()
        )
        self.spec = self._inner.spec
        self.entered = 0
        self.broken = False
        self._permits = math.inf
        self._changed = threading.Condition()

    def hold(self) -> None:
        self._permits = 0

    def let_go(self, steps: float = math.inf) -> None:
        with self._changed:
            self._permits += steps
            self._changed.notify_all()

    def break_down(self) -> None:
        self.broken = True
        self.let_go()

    def wait_for(self, condition: Callable[[Gate], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), PATIENCE_S), (
                "engine never got there"
            )

    @property
    def used(self) -> int:
        return self._inner.capacity().sequences_used

    def start(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        seq = self._inner.start(token_ids, sampling)
        self._notify()
        return seq

    def append(self, seq: int, token_ids: Sequence[int]) -> None:
        self._inner.append(seq, token_ids)

    def step(self, seqs: Sequence[int]) -> StepResult:
        with self._changed:
            self.entered += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._permits > 0, PATIENCE_S), "never let go"
            self._permits -= 1
        if self.broken:
            raise EngineError("the test broke this engine")
        return self._inner.step(seqs)

    def truncate(self, seq: int, length: int) -> None:
        self._inner.truncate(seq, length)

    def release(self, seq: int) -> None:
        self._inner.release(seq)
        self._notify()

    def capacity(self) -> Capacity:
        return self._inner.capacity()

    def close(self) -> None:
        self._inner.close()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


class _NoTime:
    def now(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        pass
