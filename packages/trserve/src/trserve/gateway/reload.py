"""The configuration file, read again while the gateway runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import structlog

from trsched.errors import ConfigError
from trserve.gateway.instance import key_of

if TYPE_CHECKING:
    from trserve.gateway.config import GatewayConfig, InstanceSpec
    from trserve.gateway.gateway import Gateway
    from trserve.gateway.instance import Instance

_log = structlog.get_logger("trserve.gateway")

_FOLLOWED = ("instances", "aliases", "weights", "timeouts", "retries", "max_waiting")


def reload(gateway: Gateway) -> list[str]:
    """Follow the file; what has changed, in a few words each.

    Raises ConfigError, and then nothing has changed: the file is wrong, or wants what only a new
    start can give.
    """
    wanted = gateway.deployment.reread()
    try:
        _refuse(gateway.deployment.gateway, wanted.gateway)
        plan = _plan(gateway, wanted.gateway)
    except ConfigError as error:
        raise wanted.located(error) from error
    changed = ["keys"] if gateway.keys.reload() else []
    _follow(gateway, plan)
    changed += plan.told()
    old = gateway.deployment.gateway
    changed += [
        name for name in _FOLLOWED[1:] if getattr(old, name) != getattr(wanted.gateway, name)
    ]
    gateway.configure(wanted)
    _log.info("configuration read again", changed=changed)
    return changed


def _refuse(old: GatewayConfig, new: GatewayConfig) -> None:
    for field in msgspec.structs.fields(type(old)):
        name = field.name
        if name not in _FOLLOWED and getattr(old, name) != getattr(new, name):
            raise ConfigError(name, "has changed: that needs a new start")


@dataclass(frozen=True, slots=True)
class _Plan:
    """Names of instances that will be other ones, be gone, and come; specs: by name, in order."""

    others: list[str]
    gone: list[str]
    come: list[str]
    specs: dict[str, InstanceSpec]

    def told(self) -> list[str]:
        """In a few words each."""
        return [
            *(f"instance {name} changed" for name in self.others),
            *(f"instance {name} drained" for name in self.gone),
            *(f"instance {name} added" for name in self.come),
        ]

    def field(self, name: str) -> str:
        """The instance's place in the file."""
        return f"instances[{list(self.specs).index(name)}]"


def _plan(gateway: Gateway, new: GatewayConfig) -> _Plan:
    """Those that were added by /admin stay. Raises ConfigError: it cannot be done."""
    before = {spec.name: spec for spec in gateway.deployment.gateway.instances}
    after = {spec.name: spec for spec in new.instances}
    there = [name for name in before if gateway.pool.named(name) is not None]
    plan = _Plan(
        others=[name for name in there if name in after and after[name] != before[name]],
        gone=[name for name in there if name not in after],
        come=[name for name in after if gateway.pool.named(name) is None],
        specs=after,
    )
    for name in (*plan.others, *plan.come):
        key_of(after[name], plan.field(name))
    gateway.pool.check_room(len(plan.come), "instances")
    return plan


def _follow(gateway: Gateway, plan: _Plan) -> None:
    """What the file has no more is drained, what is new is added.

    One that has changed is both; until the old one has drained they would have the same name, so
    the old one is removed at once and its requests go elsewhere.
    """
    for name in plan.gone:
        gateway.retire(_named(gateway, name))
    for name in plan.others:
        gateway.remove(_named(gateway, name))
    for name in (*plan.others, *plan.come):
        gateway.add(plan.specs[name], plan.field(name))


def _named(gateway: Gateway, name: str) -> Instance:
    instance = gateway.pool.named(name)
    assert instance is not None
    return instance
