"""What TPOT heads see of instances, from what a gateway knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rbalance.tpot.features import STATE_COLUMN, unknown_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rbalance.state.activity import Activity
    from rbalance.state.in_flight import InFlight
    from rbalance.state.servers import Servers
    from rbalance.state.telemetry import TelemetryBoard
    from trcore import InstanceView

OF_A_SERVER: dict[str, Callable[[NDArray[np.float32]], Any]] = {
    "context": np.sum,
    "written": np.sum,
    "oldest_running": np.fmax.reduce,
    "oldest_waiting": np.fmax.reduce,
}
"""What is kept by instance, and how it is told of a server that several share."""


def state_features(
    view: InstanceView,
    own: InFlight,
    telemetry: TelemetryBoard,
    activity: Activity,
    servers: Servers,
    now: float,
) -> NDArray[np.float32]:
    """float32 [capacity, 17], columns as STATE_FEATURES; who shares a server has the same."""
    age = telemetry.age(now)
    rates = activity.rates(now, "dispatched", "finished", "read", "written")
    known: dict[str, NDArray[Any]] = {
        "running": view.running,
        "waiting": view.waiting,
        "slots": view.slots,
        "pending_prefill": view.pending_prefill,
        "pending_decode": view.pending_decode,
        "kv_usage": telemetry.kv_usage(now),
        "context": own.context,
        "written": own.written,
        "oldest_running": now - own.oldest_running(),
        "oldest_waiting": now - own.oldest_waiting(),
        "dispatch_rate": rates[:, 0],
        "finish_rate": rates[:, 1],
        "prefill_rate": rates[:, 2],
        "decode_rate": rates[:, 3],
        "recent_tpot": activity.mean("tpot_s", "tpot_n"),
        "recent_ttft": activity.mean("ttft_s", "ttft_n"),
        "telemetry_age": np.where(np.isfinite(age), age, np.nan),
    }
    state = unknown_state(len(view))
    for name, column in known.items():
        state[:, STATE_COLUMN[name]] = column
    for members in servers.shared:
        for name, of_all in OF_A_SERVER.items():
            column = state[:, STATE_COLUMN[name]]
            column[members] = of_all(column[members])
    return state
