"""Whether a gateway's configuration makes sense, and which field doesn't."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from rbalance import ConfigError as BalanceConfigError
from rbalance import Weights, parse_weights
from trsched.errors import ConfigError
from trsched.plan.config import converted
from trserve.gateway.config.config import (
    AUTO,
    AliasSpec,
    Breaker,
    Checks,
    GatewayConfig,
    GroupSpec,
    InstanceSpec,
    ModelSpec,
    Retries,
    Slo,
    Timeouts,
    WeightShares,
)
from trserve.settings.unknown_setting import naming_unknown_field

_STRUCTS = {
    "configuration": (GatewayConfig,),
    "models": (ModelSpec,),
    "instances": (InstanceSpec,),
    "groups": (GroupSpec,),
    "aliases": (AliasSpec,),
    "timeouts": (Timeouts,),
    "retries": (Retries,),
    "breaker": (Breaker,),
    "checks": (Checks,),
    "slo": (Slo,),
    "weights": (WeightShares,),
}


def gateway_config(data: dict[str, Any]) -> GatewayConfig:
    """Checked in every way that the text alone allows. Raises ConfigError naming the field."""
    try:
        config = converted(data, GatewayConfig, "configuration")
    except ConfigError as error:
        raise naming_unknown_field(error, _STRUCTS) from error
    _check_names(config)
    for at, instance in enumerate(config.instances):
        check_instance(config, instance, f"instances[{at}]")
    for at, group in enumerate(config.groups):
        if (group.preset is None) == (group.config is None):
            raise ConfigError(f"groups[{at}]", "needs either preset or config")
    for name, alias in config.aliases.items():
        for at, model in enumerate(alias.models):
            _known(f"aliases.{name}.models[{at}]", model, [each.name for each in config.models])
        if alias.weights is not None:
            weights_of(alias.weights, f"aliases.{name}.weights")
    weights_of(config.weights, "weights")
    return config


def check_instance(config: GatewayConfig, instance: InstanceSpec, field: str) -> None:
    """What is wrong with an instance beside its name. Raises ConfigError; field: its path."""
    _known(f"{field}.model", instance.model, [model.name for model in config.models])
    if (instance.url is None) == (instance.group is None):
        raise ConfigError(field, "needs either url or group")
    if instance.url is not None:
        _check_url(f"{field}.url", instance.url)
        for name in ("threshold", "only"):
            if getattr(instance, name) is not None:
                raise ConfigError(f"{field}.{name}", "is for entries of a local group")
    else:
        _known(f"{field}.group", instance.group, [group.name for group in config.groups])
        if instance.threshold is not None and not math.isfinite(instance.threshold):
            raise ConfigError(f"{field}.threshold", "must be a finite number")
        if instance.threshold is not None and instance.only is not None:
            raise ConfigError(f"{field}.only", "and threshold exclude each other")
    for name in ("health_path", "metrics_path"):
        path = getattr(instance, name)
        if path is not None and not path.startswith("/"):
            raise ConfigError(f"{field}.{name}", f"must begin with a slash, not {path!r}")


def weights_of(given: str | WeightShares, field: str) -> Weights:
    """A preset's name, "0.6/0.2/0.2", or three shares. Raises ConfigError naming `field`."""
    try:
        if isinstance(given, str):
            return parse_weights(given)
        return Weights(given.quality, given.cost, given.latency)
    except BalanceConfigError as error:
        raise ConfigError(field, error.message) from error


def _check_names(config: GatewayConfig) -> None:
    for section, names in (
        ("models", [model.name for model in config.models]),
        ("instances", [instance.name for instance in config.instances]),
        ("groups", [group.name for group in config.groups]),
    ):
        for at, name in enumerate(names):
            if names.index(name) != at:
                raise ConfigError(f"{section}[{at}].name", f"{name!r} is used twice")
    taken = {AUTO, *config.aliases}
    for at, model in enumerate(config.models):
        if model.name in taken:
            raise ConfigError(f"models[{at}].name", f"{model.name!r} is an alias already")
    if AUTO in config.aliases:
        raise ConfigError(f"aliases.{AUTO}", "stands for all models; name yours otherwise")


def _known(field: str, name: str | None, known: Sequence[str]) -> None:
    if name not in known:
        listed = ", ".join(known) or "none is configured"
        raise ConfigError(field, f"{name!r} is none of {listed}")


def _check_url(field: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(field, f"{url!r} is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(field, f"expected http://HOST:PORT, not {url!r}")
    if parts.query or parts.fragment or parts.username:
        raise ConfigError(field, "has a query, a fragment or a user's name in it")
    if parts.path.rstrip("/").endswith("/v1"):
        raise ConfigError(field, "leave out /v1 at the end: requests bring it along")
