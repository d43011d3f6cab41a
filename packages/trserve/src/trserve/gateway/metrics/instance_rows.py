"""The instances as they are, for metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trserve.gateway.metrics.instance_collector import InstanceRow

if TYPE_CHECKING:
    from rbalance import InstanceState
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.pool.pool import Pool


def instance_rows(pool: Pool) -> list[InstanceRow]:
    """One for each instance.

    Of entries that share a server each has its own requests; what others send there is counted with
    the first of them, so that sums over rows count nothing twice.
    """
    now = asyncio.get_running_loop().time()
    state = pool.state
    state.refresh(now)  # decisions do, but there may be none for long
    age = state.telemetry.age(now)
    servers: dict[str, list[Instance]] = {}
    for each in pool.instances:
        servers.setdefault(each.url, []).append(each)
    rows = []
    for each in pool.instances:
        first, *others = servers[each.url]
        load = _load(state, each, others) if each is first else _own(state, each)
        rows.append(
            InstanceRow(
                instance=each.name,
                model=each.spec.model,
                running=int(load[0]),
                waiting=int(load[1]),
                pending_tokens=load[2],
                up=bool(state.view.healthy[each.number]),
                draining=each.draining,
                telemetry_age=float(age[each.number]),
                breaker=each.breaker.state(now),
            )
        )
    return rows


def _own(state: InstanceState, instance: Instance) -> tuple[float, float, float]:
    """Running, waiting and pending tokens of this gateway's requests on one entry."""
    own, at = state.in_flight, instance.number
    return float(own.running[at]), float(own.waiting[at]), float(own.pending_decode[at])


def _load(
    state: InstanceState, instance: Instance, others: list[Instance]
) -> tuple[float, float, float]:
    """The same of the whole server, less what this gateway sends to its other entries."""
    view, at = state.view, instance.number
    whole = (float(view.running[at]), float(view.waiting[at]), float(view.pending_decode[at]))
    apart = [_own(state, each) for each in others]
    running, waiting, pending = (
        total - sum(each[column] for each in apart) for column, total in enumerate(whole)
    )
    return running, waiting, pending
