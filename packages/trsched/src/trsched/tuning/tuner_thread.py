"""The thread that keeps a group's thresholds at their optimum."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from trsched.shared.active_count import ActiveCount
from trsched.shared.counters import SubserverStats, TuningStatus
from trsched.tuning.tuner import Tuner

POLL_S = 0.2
_LOSS_POLLS = 50
_LOSS_RATIO = 0.9


class TunerThread:
    """Polls between `start` and `stop`, as long as all models live and nothing fails.

    tuner: polled with the requests now active.
    active: how many those are.
    stats: of the subservers.
    report: told when tuning fails, and once when the last model alone has been predicted to be
        faster for fifty polls.
    poll_s: seconds between polls.
    """

    def __init__(
        self,
        tuner: Tuner,
        active: ActiveCount,
        stats: Sequence[SubserverStats],
        report: Callable[[str], None],
        poll_s: float = POLL_S,
    ) -> None:
        self._tuner = tuner
        self._active = active
        self._stats = stats
        self._report = report
        self._poll_s = poll_s
        self._losses = 0
        self._warned = False
        self._over = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tuner", daemon=True)

    @property
    def status(self) -> TuningStatus | None:
        """The last of the tuner's; None before it knows anything, and once it is over."""
        return None if self._over else self._tuner.status

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it and wait for that."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._poll_s):
            if not all(each.alive for each in self._stats):
                self._over = True  # with fewer models nothing that was learnt holds
                return
            active = self._active.routed
            try:
                self._tuner.poll(active, time.monotonic())
            except Exception as error:  # noqa: BLE001 - reported; serving goes on as it is
                self._over = True
                self._report(f"delayed batching is no longer tuned: {error}")
                return
            status = self._tuner.status
            if status is not None and active:
                self._warn_of_loss(status)

    def _warn_of_loss(self, status: TuningStatus) -> None:
        loses = status.predicted < status.alone[-1] * _LOSS_RATIO
        self._losses = self._losses + 1 if loses else 0
        if self._losses < _LOSS_POLLS or self._warned:
            return
        self._warned = True
        self._report(
            f"routing is a loss of throughput here: {status.predicted:.0f} tokens/s at "
            f"{status.active} requests, where {self._stats[-1].name} alone would make about "
            f"{status.alone[-1]:.0f} (see mode: llm-only)"
        )
