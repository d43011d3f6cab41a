"""The configuration file, read again while the gateway runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import structlog

from trsched.errors import ConfigError
from trserve.settings.server_settings import GatewaySettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trserve.gateway.config.config import GatewayConfig, InstanceSpec
    from trserve.gateway.gateway import Gateway
    from trserve.gateway.pool.instance import Instance

_log = structlog.get_logger("trserve.gateway")

_FOLLOWED_SERVER = ("request_timeout", "access_log")
_FOLLOWED = ("instances", "aliases", "weights", "timeouts", "retries", "max_waiting")


def reload(gateway: Gateway) -> list[str]:
    """Follow the file; what has changed, in a few words each.

    Raises ConfigError, and then nothing has changed: the file is wrong, or wants what only a new
    start can give.
    """
    wanted = gateway.deployment.reread()
    old, new = gateway.deployment.gateway, wanted.gateway
    with wanted.origin.locating():
        _refuse(old, new, _FOLLOWED, "")
        _refuse(gateway.deployment.server, wanted.server, _FOLLOWED_SERVER, "server.")
        plan = _plan(gateway, new)
    changed = ["keys"] if gateway.keys.reload() else []
    _follow(gateway, plan)
    changed += plan.told()
    changed += [name for name in _FOLLOWED[1:] if getattr(old, name) != getattr(new, name)]
    gateway.configure(wanted)
    _log.info("configuration read again", changed=changed)
    return changed


def _refuse(old: object, new: object, followed: Sequence[str], section: str) -> None:
    for name in _fields(old):
        if name not in followed and getattr(old, name) != getattr(new, name):
            raise ConfigError(f"{section}{name}", "has changed: that needs a new start")


def _fields(of: object) -> Iterable[str]:
    if isinstance(of, msgspec.Struct):
        return of.__struct_fields__
    assert isinstance(of, GatewaySettings)
    return type(of).model_fields


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
    there = {each.name: each for each in gateway.pool.instances}
    plan = _Plan(
        others=[
            name
            for name, spec in after.items()
            if name in there and (there[name].draining or there[name].spec != spec)
        ],
        gone=[
            name
            for name in before
            if name in there and name not in after and not there[name].draining
        ],
        come=[name for name in after if name not in there],
        specs=after,
    )
    fresh = (*plan.others, *plan.come)
    for name in fresh:
        gateway.pool.check(after[name], plan.field(name))
    gateway.pool.check_room(len(fresh), "instances")
    return plan


def _follow(gateway: Gateway, plan: _Plan) -> None:
    """What the file has no more is drained, what is new is added.

    One that has changed is both: the old one gives up its name and finishes what it has.
    """
    for name in plan.gone:
        gateway.retire(_named(gateway, name))
    for name in plan.others:
        gateway.replace(_named(gateway, name))
    for name in (*plan.others, *plan.come):
        gateway.add(plan.specs[name], plan.field(name))


def _named(gateway: Gateway, name: str) -> Instance:
    instance = gateway.pool.named(name)
    assert instance is not None
    return instance
