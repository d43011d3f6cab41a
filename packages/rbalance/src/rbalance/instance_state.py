"""What a gateway knows of its instances: its own requests in flight, what they say of themselves,
and the two combined in the view that decisions are made on (article, section 3: dead reckoning).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rbalance.activity import Activity
from rbalance.errors import ConfigError
from rbalance.in_flight import InFlight
from rbalance.telemetry import Telemetry, TelemetryBoard
from rbalance.tpot.features import STATE_COLUMN, unknown_state
from trcore import InstanceView

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from rbalance.cluster import Cluster, Tier
    from rbalance.in_flight import Flight

TYPICAL_TOKENS = 256.0
"""Expected of another gateway's request where no prior is known."""


class InstanceState:
    """Up to `capacity` instances, numbered; a number is free again once its instance is removed.

    `view` holds, for each instance, this gateway's own requests plus other gateways' as far as
    telemetry shows them. Others' requests are taken to write `typical_tokens` of their model, half
    of them written if running. Everything is called from one thread; nothing here waits.
    """

    def __init__(
        self,
        cluster: Cluster,
        typical_tokens: Sequence[float] | None = None,
        capacity: int | None = None,
        stale_s: float = 1.0,
        forget_s: float = 10.0,
    ) -> None:
        """typical_tokens: by model, in the cluster's order; None: 256 each. capacity: None: as many
        as the cluster has. Raises ConfigError if they are fewer.
        """
        given = cluster.instances
        capacity = len(given) if capacity is None else capacity
        if capacity < len(given):
            raise ConfigError("capacity", f"{capacity} are fewer than {len(given)} instances")
        self.models = cluster.models
        self.view = InstanceView(capacity)
        self.view.prior_tpot_s[:] = 1.0
        self._columns = _Columns(self.view)
        self.in_flight = InFlight(capacity)
        self.telemetry = TelemetryBoard(capacity, stale_s, forget_s)
        self.tier: list[Tier | None] = [None] * capacity
        self._activity = Activity(capacity)
        self._typical = np.asarray(
            [TYPICAL_TOKENS] * len(self.models) if typical_tokens is None else typical_tokens
        )
        self._others_running = np.zeros(capacity)
        self._others_waiting = np.zeros(capacity)
        self._sequence = 0
        for tier in given:
            self.add(tier)

    def add(self, tier: Tier) -> int:
        """Open a new instance; its number.

        Raises ConfigError: no number is free, or a model that the cluster did not have.
        """
        if None not in self.tier:
            raise ConfigError("capacity", f"all {len(self.tier)} instances are taken")
        if tier.model not in self.models:
            raise ConfigError("model", f"{tier.model!r} is none of {', '.join(self.models)}")
        at = self.tier.index(None)
        view = self.view
        view.model[at] = self.models.index(tier.model)
        view.input_price[at] = tier.price_in
        view.output_price[at] = tier.price_out
        view.prior_tpot_s[at] = tier.tpot_s
        view.tpot_s[at] = np.nan
        view.prefill_rate[at] = tier.prefill_rate
        view.slots[at] = tier.slots
        view.context_window[at] = tier.context
        view.capabilities[at] = tier.capabilities
        view.last_assigned[at] = 0
        view.draining[at] = False
        view.healthy[at] = True
        self.tier[at] = tier
        return at

    def drain(self, instance: int) -> None:
        """Send it nothing more; what it has goes on."""
        self.view.draining[instance] = True

    def set_healthy(self, instance: int, healthy: bool) -> None:
        """Send it requests, or none while it is ill."""
        self.view.healthy[instance] = healthy and self.tier[instance] is not None

    def remove(self, instance: int) -> tuple[Hashable, ...]:
        """Forget it; the requests that were in flight on it, for the caller to fail."""
        self.view.healthy[instance] = False
        orphans = self.in_flight.keys_on(instance)
        for key in orphans:
            self.in_flight.release(key)
        self.telemetry.clear(instance)
        self._activity.clear(instance)
        self._others_running[instance] = self._others_waiting[instance] = 0
        self._write(instance)
        self.tier[instance] = None
        return orphans

    def dispatch(
        self, key: Hashable, instance: int, prompt: int, predicted: float, now: float
    ) -> None:
        """A request goes there. Raises ValueError: the key is in flight already."""
        self.in_flight.dispatch(key, instance, prompt, predicted, now)
        self._activity.add(instance, now, dispatched=1)
        self._sequence += 1
        self._columns.last_assigned[instance] = self._sequence
        self._write(instance)

    def progress(self, key: Hashable, written: int, now: float) -> None:
        """It has written so many tokens in all."""
        known = self.in_flight.progress(key, written, now)
        if known is None:
            return
        flight, gained = known
        if gained == written:
            waited = now - flight.dispatched_at
            self._activity.add(
                flight.instance, now, read=flight.prompt, written=written, ttft_s=waited, ttft_n=1
            )
        else:
            self._activity.add(flight.instance, now, written=gained)
        self._write(flight.instance)

    def release(self, key: Hashable, now: float) -> Flight | None:
        """It has ended: complete, failed or aborted. Again, or an unknown key: None."""
        flight = self.in_flight.release(key)
        if flight is None:
            return None
        seconds = now - flight.first_at
        if flight.written > 1 and seconds > 0:
            tpot = seconds / (flight.written - 1)
            self._activity.add(flight.instance, now, finished=1, tpot_s=tpot, tpot_n=1)
        else:
            self._activity.add(flight.instance, now, finished=1)
        self._write(flight.instance)
        return flight

    def report(self, instance: int, told: Telemetry, now: float) -> None:
        """A reading of an instance's own figures; the view has it from the next `refresh` on."""
        own = self.in_flight
        self.telemetry.report(
            instance, told, int(own.running[instance]), int(own.waiting[instance]), now
        )

    def refresh(self, now: float) -> None:
        """Bring the view up to date with what time alone changes; before each decision."""
        self._others_running, self._others_waiting = self.telemetry.others(now)
        self._write(slice(None))

    def congested(self) -> float:
        """Share of the open instances that have requests waiting, 0 to 1; 0 without any."""
        open_ = self._columns.healthy & ~self._columns.draining
        busy = open_ & (self._columns.waiting > 0)
        return int(busy.sum()) / max(1, int(open_.sum()))

    def stale(self, now: float) -> int:
        """How many instances have no fresh telemetry: never had, too old, or its fetch failed."""
        stale = self.telemetry.stale(now)
        return sum(bool(stale[at]) for at, tier in enumerate(self.tier) if tier is not None)

    def features(self, now: float) -> NDArray[np.float32]:
        """float32 [capacity, 17]: what TPOT heads see, columns as STATE_FEATURES."""
        own, view = self.in_flight, self.view
        age = self.telemetry.age(now)
        rates = self._activity.rates(now, "dispatched", "finished", "read", "written")
        known: dict[str, NDArray[Any]] = {
            "running": view.running,
            "waiting": view.waiting,
            "slots": view.slots,
            "pending_prefill": view.pending_prefill,
            "pending_decode": view.pending_decode,
            "kv_usage": self.telemetry.kv_usage(now),
            "context": own.context,
            "written": own.written,
            "oldest_running": now - own.oldest_running(),
            "oldest_waiting": now - own.oldest_waiting(),
            "dispatch_rate": rates[:, 0],
            "finish_rate": rates[:, 1],
            "prefill_rate": rates[:, 2],
            "decode_rate": rates[:, 3],
            "recent_tpot": self._activity.mean("tpot_s", "tpot_n"),
            "recent_ttft": self._activity.mean("ttft_s", "ttft_n"),
            "telemetry_age": np.where(np.isfinite(age), age, np.nan),
        }
        state = unknown_state(len(view))
        for name, column in known.items():
            state[:, STATE_COLUMN[name]] = column
        return state

    def _write(self, at: int | slice) -> None:
        own, columns = self.in_flight, self._columns
        running, waiting = self._others_running[at], self._others_waiting[at]
        columns.running[at] = own.running[at] + running
        columns.waiting[at] = own.waiting[at] + waiting
        typical = self._typical[columns.model[at]]
        columns.pending_decode[at] = own.pending_decode[at] + typical * (waiting + running / 2)
        columns.pending_prefill[at] = own.pending_prefill[at]


class _Columns:
    """Those of a view's columns that are touched for each token: the view makes anew what it gives.

    Arrays [capacity], see `trcore.InstanceView`.
    """

    def __init__(self, view: InstanceView) -> None:
        self.model = view.model
        self.running = view.running
        self.waiting = view.waiting
        self.pending_decode = view.pending_decode
        self.pending_prefill = view.pending_prefill
        self.last_assigned = view.last_assigned
        self.healthy = view.healthy
        self.draining = view.draining
