"""What a gateway knows of its instances: its own requests in flight, what they say of themselves,
and the two combined in the view that decisions are made on (article, section 3: dead reckoning).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError
from rbalance.state.activity import Activity
from rbalance.state.in_flight import InFlight
from rbalance.state.servers import Servers
from rbalance.state.state_features import state_features
from rbalance.state.telemetry import Telemetry, TelemetryBoard
from trcore import InstanceView

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from rbalance.cluster import Cluster, Tier
    from rbalance.state.in_flight import DispatchedRequest

TYPICAL_TOKENS = 256.0
"""Expected of another gateway's request where no prior is known."""


class InstanceState:
    """Up to `capacity` instances, numbered; a number is free again once its instance is removed.

    `view` holds, for each instance, this gateway's own requests plus other gateways' as far as
    telemetry shows them. Others' requests are taken to write `typical_tokens` of their model, half
    of them written if running. Everything is called from one thread; nothing here waits.

    Instances may share a server, as when it answers in several ways that are chosen between. Each
    has its own requests in flight then, but in its view and its features those of them all;
    telemetry of one is telemetry of the server, and so of each.
    """

    def __init__(
        self,
        cluster: Cluster,
        typical_tokens: Sequence[float] | None = None,
        capacity: int | None = None,
        stale_s: float = 1.0,
        forget_s: float = 10.0,
    ) -> None:
        """typical_tokens: by model, in the cluster's order; None: 256 each.
        capacity: None: as many as the cluster has.

        Raises ConfigError: room for fewer instances than the cluster has, or for none.
        """
        given = cluster.instances
        capacity = len(given) if capacity is None else capacity
        if capacity < len(given):
            raise ConfigError("capacity", f"{capacity} are fewer than {len(given)} instances")
        if capacity < 1:
            raise ConfigError("capacity", "there must be room for an instance")
        self.models = cluster.models
        self.view = InstanceView(capacity)
        self.view.prior_tpot_s[:] = 1.0
        self._columns = _Columns(self.view)
        self.in_flight = InFlight(capacity)
        self.telemetry = TelemetryBoard(capacity, stale_s, forget_s)
        self.tier: list[Tier | None] = [None] * capacity
        self._servers = Servers(capacity)
        self._activity = Activity(capacity)
        self._typical = np.asarray(
            [TYPICAL_TOKENS] * len(self.models) if typical_tokens is None else typical_tokens
        )
        self._others_running = np.zeros(capacity)
        self._others_waiting = np.zeros(capacity)
        self._sequence = 0
        for tier in given:
            self.add(tier)

    def add(self, tier: Tier, shared_with: int | None = None) -> int:
        """Open a new instance; its number.

        shared_with: one whose server it stands for too.

        Raises ConfigError: no number is free, a model that the cluster did not have, or nothing to
        share with.
        """
        if None not in self.tier:
            raise ConfigError("capacity", f"all {len(self.tier)} instances are taken")
        if tier.model not in self.models:
            raise ConfigError("model", f"{tier.model!r} is none of {', '.join(self.models)}")
        if shared_with is not None and (
            not 0 <= shared_with < len(self.tier) or self.tier[shared_with] is None
        ):
            raise ConfigError("shared_with", f"there is no instance {shared_with}")
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
        if shared_with is not None:
            self._share(at, shared_with)
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
        left = [at for at in self._servers.members(instance) if at != instance]
        self._servers.leave(instance)
        self.telemetry.clear(instance)
        self._activity.clear(instance)
        self._others_running[instance] = self._others_waiting[instance] = 0
        self._write_server(instance)
        if left:
            self._write_server(left[0])
        self.tier[instance] = None
        return orphans

    def dispatch(
        self, key: Hashable, instance: int, prompt: int, predicted: float, now: float
    ) -> None:
        """A request goes there. Raises ValueError: the key is in flight already."""
        self.in_flight.dispatch(key, instance, prompt, predicted, now)
        self._activity.add(self._servers.members(instance), now, dispatched=1)
        self._sequence += 1
        self._columns.last_assigned[instance] = self._sequence
        self._write_server(instance)

    def progress(self, key: Hashable, written: int, now: float) -> None:
        """It has written so many tokens in all."""
        known = self.in_flight.progress(key, written, now)
        if known is None:
            return
        request, gained = known
        members = self._servers.members(request.instance)
        if gained == written:
            waited = now - request.dispatched_at
            self._activity.add(
                members, now, read=request.prompt, written=written, ttft_s=waited, ttft_n=1
            )
        else:
            self._activity.add(members, now, written=gained)
        self._write_server(request.instance)

    def release(self, key: Hashable, now: float) -> DispatchedRequest | None:
        """It has ended: complete, failed or aborted. Again, or an unknown key: None."""
        request = self.in_flight.release(key)
        if request is None:
            return None
        members = self._servers.members(request.instance)
        seconds = now - request.first_at
        if request.written > 1 and seconds > 0:
            tpot = seconds / (request.written - 1)
            self._activity.add(members, now, finished=1, tpot_s=tpot, tpot_n=1)
        else:
            self._activity.add(members, now, finished=1)
        self._write_server(request.instance)
        return request

    def report(self, instance: int, told: Telemetry, now: float) -> None:
        """A reading of its server's own figures; the view has it from the next `refresh` on."""
        members = self._servers.members(instance)
        running = int(self.in_flight.running[members].sum())
        waiting = int(self.in_flight.waiting[members].sum())
        for at in members:
            self.telemetry.report(at, told, running, waiting, now)

    def report_failed(self, instance: int) -> None:
        """Its server could not be asked: what is known of it counts as stale from now on."""
        for at in self._servers.members(instance):
            self.telemetry.failed(at)

    def refresh(self, now: float) -> None:
        """Bring the view up to date with what time alone changes; before each decision."""
        self._others_running, self._others_waiting = self.telemetry.others(now)
        self._write(slice(None))
        for members in self._servers.shared:
            self._write(members)

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
        """float32 [capacity, 17]: what TPOT heads see, see rbalance.state.state_features."""
        return state_features(
            self.view, self.in_flight, self.telemetry, self._activity, self._servers, now
        )

    def _share(self, at: int, other: int) -> None:
        self._servers.join(at, other)
        self.telemetry.copy(other, at)
        self._activity.copy(other, at)
        self._others_running[at] = self._others_running[other]
        self._others_waiting[at] = self._others_waiting[other]
        self._write_server(at)

    def _write_server(self, instance: int) -> None:
        members = self._servers.members(instance)
        self._write(instance if len(members) == 1 else members)

    def _write(self, at: int | slice | list[int]) -> None:
        """For one, for all as if each were alone, or for the members of one server."""
        own, columns = self.in_flight, self._columns
        amounts = (
            own.running[at],
            own.waiting[at],
            own.pending_decode[at],
            own.pending_prefill[at],
        )
        if isinstance(at, list):
            amounts = tuple(amount.sum() for amount in amounts)
        own_running, own_waiting, own_decode, own_prefill = amounts
        running, waiting = self._others_running[at], self._others_waiting[at]
        columns.running[at] = own_running + running
        columns.waiting[at] = own_waiting + waiting
        typical = self._typical[columns.model[at]]
        columns.pending_decode[at] = own_decode + typical * (waiting + running / 2)
        columns.pending_prefill[at] = own_prefill


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
