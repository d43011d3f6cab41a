"""The instances there are, by name and by the balancer's number; they come and go at run time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from trsched.errors import ConfigError
from trserve.gateway.config.checks import check_instance
from trserve.gateway.config.config import GatewayConfig, InstanceSpec
from trserve.gateway.pool.circuit_breaker import BreakerSettings, CircuitBreaker
from trserve.gateway.pool.instance import Instance, key_of, tier_of

if TYPE_CHECKING:
    from trserve.gateway.pool.balancing import Balancing
    from trserve.gateway.pool.local_groups import GroupServer

_log = structlog.get_logger("trserve.gateway")


class Pool:
    """Everything happens on the event loop.

    config: in force.
    state: what the balancer sees of the instances.
    groups: the local ones, by name.
    changes: instances added or drained so far.
    """

    def __init__(
        self, config: GatewayConfig, balancing: Balancing, groups: dict[str, GroupServer]
    ) -> None:
        self.config = config
        self._balancing = balancing
        self.state = balancing.state
        self.groups = groups
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
        return self.state.tier.count(None)

    def check_room(self, count: int, field: str) -> None:
        """Raises ConfigError: so many more there cannot be."""
        if count > self.room:
            raise ConfigError(field, f"room for {self.room} more: start with a larger `spare`")

    def check(self, spec: InstanceSpec, field: str) -> tuple[str, str | None]:
        """URL and key of an instance. Raises ConfigError: it cannot be; field: its path."""
        check_instance(self.config, spec, field)
        self._balancing.check_tier(spec.tier or spec.model, f"{field}.tier")
        if spec.group is not None:
            server = self.groups[spec.group]
            server.check(spec, field)
            return server.url, server.key
        assert spec.url is not None
        return spec.url.rstrip("/"), key_of(spec, field)

    def add(self, spec: InstanceSpec, field: str) -> Instance:
        """Open an instance. Raises ConfigError; field: the path of the instance."""
        url, key = self.check(spec, field)
        if spec.name in self._by_name:
            raise ConfigError(f"{field}.name", f"{spec.name!r} is there already")
        self.check_room(1, field)
        tier = tier_of(spec, self.config.model(spec.model))
        same = next((each for each in self._by_number.values() if each.url == url), None)
        number = self.state.add(tier, shared_with=None if same is None else same.number)
        self._balancing.place(number, tier)
        breaker = CircuitBreaker(
            BreakerSettings(self.config.breaker.failures, self.config.breaker.cooldown_s)
        )
        instance = Instance(number, spec, url, key, breaker, tier.capabilities, tier.context)
        self._by_name[spec.name] = self._by_number[number] = instance
        self.changes += 1
        return instance

    def retire(self, instance: Instance) -> None:
        """Send it nothing more; it is forgotten once it has finished what it has."""
        if instance.draining:
            return
        instance.draining = True
        instance.on_empty = lambda: self.remove(instance)
        self.state.drain(instance.number)
        self.changes += 1
        if not instance.requests:
            self.remove(instance)

    def release_name(self, instance: Instance) -> None:
        """Another may be called so; this one goes on under its number alone."""
        if self._by_name.get(instance.name) is instance:
            del self._by_name[instance.name]

    def remove(self, instance: Instance) -> None:
        """Forget it. What is still on its way there is tried elsewhere, or told of the removal."""
        if self._by_number.pop(instance.number, None) is None:
            return
        self.release_name(instance)
        instance.draining = True
        instance.on_empty = None
        self.changes += 1
        for request in list(instance.requests):
            request.stop("instance removed")
        self.state.remove(instance.number)

    def checked(self, instance: Instance, healthy: bool, why: str) -> None:
        """What a health check found."""
        instance.checked, instance.why = healthy, why
        self.judge(instance)

    def began(self, instance: Instance) -> None:
        """The first token of an answer came: enough of a probe; of others their end tells."""
        if instance.breaker.state(asyncio.get_running_loop().time()) != "closed":
            self.answered(instance)

    def answered(self, instance: Instance) -> None:
        """It has shown that it lives."""
        now = asyncio.get_running_loop().time()
        closed = instance.breaker.state(now) == "closed"
        instance.breaker.succeeded(now)
        if not closed:
            self.judge(instance)

    def failed(self, instance: Instance, why: str) -> bool:
        """It failed; whether it is left alone from now on."""
        opened = instance.breaker.opened
        instance.breaker.failed(asyncio.get_running_loop().time())
        left_alone = instance.breaker.opened != opened
        if left_alone:
            _log.warning("instance left alone", instance=instance.name, why=why)
        self.judge(instance)
        return left_alone

    def judge(self, instance: Instance) -> None:
        """Let the balancer use it or not, by its health and its breaker; again when that reopens.

        What waits for its turn at one that is down is decided anew.
        """
        if self._by_number.get(instance.number) is not instance:
            return
        loop = asyncio.get_running_loop()
        closed = instance.breaker.state(loop.time()) != "open"
        healthy = instance.checked and closed
        self.state.set_healthy(instance.number, healthy)
        if not healthy:
            for request in [each for each in instance.requests if each.phase == "waiting"]:
                request.stop("instance down")
        if not closed:
            wait = instance.breaker.opens_in(loop.time())
            loop.call_later(wait, self.judge, instance)
