"""The configuration file, read again while the gateway runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import structlog

from trsched.errors import ConfigError

if TYPE_CHECKING:
    from trserve.gateway.config import GatewayConfig
    from trserve.gateway.gateway import Gateway

_log = structlog.get_logger("trserve.gateway")

_FOLLOWED = ("instances", "aliases", "weights", "timeouts", "retries", "max_waiting")


def reload(gateway: Gateway) -> list[str]:
    """Follow the file; what has changed, in a few words each.

    Raises ConfigError, and then nothing has changed: the file is wrong, or wants what only a new
    start can give.
    """
    wanted = gateway.deployment.reread()
    _refuse(gateway.deployment.gateway, wanted.gateway)
    changed = ["keys"] if gateway.keys.reload() else []
    changed += _follow_instances(gateway, wanted.gateway)
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


def _follow_instances(gateway: Gateway, new: GatewayConfig) -> list[str]:
    """Those that the file has no more are drained, new ones are added.

    One that has changed is both; until the old one has drained they would have the same name, so
    the old one is removed at once and its requests go elsewhere. Those that were added by /admin
    stay.
    """
    before = {spec.name: spec for spec in gateway.deployment.gateway.instances}
    after = {spec.name: spec for spec in new.instances}
    changed = []
    for name, spec in before.items():
        instance = gateway.pool.named(name)
        if instance is None or after.get(name) == spec:
            continue
        if name in after:
            gateway.remove(instance)
        else:
            gateway.retire(instance)
        changed.append(f"instance {name} {'changed' if name in after else 'drained'}")
    for at, (name, spec) in enumerate(after.items()):
        if gateway.pool.named(name) is None:
            gateway.add(spec, f"instances[{at}]")
            if f"instance {name} changed" not in changed:
                changed.append(f"instance {name} added")
    return changed
