"""The instances there are, by name and by the balancer's number; they come and go at run time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from trsched.errors import ConfigError
from trserve.gateway.circuit_breaker import BreakerSettings, CircuitBreaker
from trserve.gateway.config import GatewayConfig, InstanceSpec, check_instance
from trserve.gateway.instance import Instance, key_of, tier_of

if TYPE_CHECKING:
    from rbalance import InstanceState, Tier
    from trserve.gateway.local_groups import GroupServer

Placed = Callable[[int, "Tier"], None]


class Pool:
    """Everything happens on the event loop.

    groups: the local ones, by name. on_placed: told the number and tier of each new instance
    (time-per-token models keep a prior for each number). changes: instances added or
    drained so far.
    """

    def __init__(
        self,
        config: GatewayConfig,
        state: InstanceState,
        groups: dict[str, GroupServer],
        on_placed: Placed,
    ) -> None:
        self.config = config
        self._state = state
        self._groups = groups
        self._on_placed = on_placed
        self.changes = 0
        self._by_name: dict[str, Instance] = {}
        self._by_number: dict[int, Instance] = {}

    @property
    def instances(self) -> list[Instance]:
        """All that are there, draining ones too, in the order they came."""
        return list(self._by_name.values())

    def find(self, number: int) -> Instance | None:
        """By the balancer's number."""
        return self._by_number.get(number)

    def named(self, name: str) -> Instance | None:
        """By name."""
        return self._by_name.get(name)

    @property
    def room(self) -> int:
        """How many more there may be."""
        return self._state.tier.count(None)

    def check_room(self, count: int, field: str) -> None:
        """Raises ConfigError: so many more there cannot be."""
        if count > self.room:
            raise ConfigError(field, f"room for {self.room} more: start with a larger `spare`")

    def add(self, spec: InstanceSpec, field: str) -> Instance:
        """Open an instance. Raises ConfigError; field: the path of the instance."""
        check_instance(self.config, spec, field)
        if spec.name in self._by_name:
            raise ConfigError(f"{field}.name", f"{spec.name!r} is there already")
        self.check_room(1, field)
        url, key = spec.url, key_of(spec, field)
        if spec.group is not None:
            server = self._groups[spec.group]
            server.check(spec, field)
            url, key = server.url, server.key
        assert url is not None
        tier = tier_of(spec, self.config.model(spec.model))
        same = next((each for each in self.instances if each.url == url.rstrip("/")), None)
        number = self._state.add(tier, shared_with=None if same is None else same.number)
        try:
            self._on_placed(number, tier)
        except Exception:
            self._state.remove(number)
            raise
        breaker = CircuitBreaker(
            BreakerSettings(self.config.breaker.failures, self.config.breaker.cooldown_s)
        )
        instance = Instance(number, spec, url, key, breaker, tier.capabilities, tier.context)
        self._by_name[spec.name] = self._by_number[number] = instance
        self.changes += 1
        return instance

    def drain(self, instance: Instance) -> None:
        """Send it nothing more; what it has goes on."""
        instance.draining = True
        self._state.drain(instance.number)
        self.changes += 1
        if not instance.flights and instance.on_empty is not None:
            instance.on_empty()

    def remove(self, instance: Instance) -> None:
        """Forget it. What is still on its way there is tried elsewhere, or told of the removal."""
        if self._by_name.pop(instance.name, None) is None:
            return
        instance.on_empty = None
        self.drain(instance)
        for flight in list(instance.flights):
            flight.stop("instance removed")
        del self._by_number[instance.number]
        self._state.remove(instance.number)

    def checked(self, instance: Instance, healthy: bool, why: str) -> None:
        """What a health check found."""
        instance.checked, instance.why = healthy, why
        self.judge(instance)

    def judge(self, instance: Instance) -> None:
        """Let the balancer use it or not, by its health and its breaker; again when that reopens"""
        if self.named(instance.name) is not instance:
            return
        loop = asyncio.get_running_loop()
        closed = instance.breaker.state(loop.time()) != "open"
        self._state.set_healthy(instance.number, instance.checked and closed)
        if not closed:
            wait = instance.breaker.opens_in(loop.time())
            loop.call_later(wait, self.judge, instance)
