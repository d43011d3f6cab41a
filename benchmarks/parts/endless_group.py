"""A group of latency profiles under a steady load: requests that never end by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from trrouters import BaseRouter
from trsched.group import Group
from trsched.loops.stream import Stream
from trsched.plan.config import GroupConfig, group_config
from trsched.request import Event, GenerateRequest, SamplingParams
from trsched.shared.counters import TuningStatus

_CONTEXT = 200_000


def configuration(
    step_ms: Sequence[float],
    router: dict[str, Any],
    thresholds: Sequence[int] | None,
    most: int,
) -> GroupConfig:
    """A group's configuration.

    thresholds: fixed ones; None: tuned.
    most: requests at once.
    """
    models = [
        {"engine": "profile", "name": f"m{i}", "step_ms": [ms], "threshold": b}
        for i, (ms, b) in enumerate(zip(step_ms, thresholds or [1] * len(step_ms), strict=True))
    ]
    return group_config(
        {
            "name": "endless",
            "models": models,
            "router": router,
            "context": _CONTEXT,
            "kv_memory": "64GiB",
            "max_active": most,
            "overlap": True,
            "delayed_batching": "auto" if thresholds is None else "fixed",
        }
    )


class EndlessGroup:
    """Counts what a running group commits."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._streams: list[Stream] = []
        self._submitted = 0

    @property
    def routers(self) -> Sequence[BaseRouter]:
        """The live ones, by model."""
        return self._group.plan.routers

    def set_active(self, active: int) -> None:
        """Submit or abort requests until so many are active."""
        while len(self._streams) < active:
            self._submitted += 1
            request = GenerateRequest(
                request_id=str(self._submitted),
                prompt_ids=[self._submitted % 256],
                max_tokens=_CONTEXT - 1,
                sampling=SamplingParams(seed=self._submitted),
            )
            self._streams.append(self._group.submit(request))
        while len(self._streams) > active:
            self._group.abort(self._streams.pop(0))

    def tokens_per_second(self, seconds: float) -> float:
        """What it commits from now on, for so long."""
        began, before = time.perf_counter(), self._committed()
        time.sleep(seconds)
        return (self._committed() - before) / (time.perf_counter() - began)

    def tuning(self) -> TuningStatus | None:
        """What the tuner knows."""
        return self._group.status().tuning

    def _committed(self) -> int:
        return sum(subserver.tokens_committed for subserver in self._group.status().subservers)


def _drop(batch: list[tuple[Stream, list[Event]]]) -> None:
    del batch


@contextmanager
def endless_group(config: GroupConfig) -> Iterator[EndlessGroup]:
    """Runs until the block ends."""
    group = Group.open(config, deliver=_drop, report=print)
    try:
        yield EndlessGroup(group)
    finally:
        group.close()
