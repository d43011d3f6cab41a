"""What a gateway is made of: models, instances that serve them, and how to choose between those."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from rbalance import ConfigError as BalanceConfigError
from rbalance import Weights, parse_weights
from trsched.config import converted
from trsched.errors import ConfigError

Capability = Literal["tools", "logprobs", "n", "images", "json"]
CAPABILITIES: tuple[Capability, ...] = ("tools", "logprobs", "n", "images", "json")
"""What a request may ask of an instance: bit i of `Tier.capabilities` is CAPABILITIES[i]."""

AUTO = "auto"
"""The model's name by which a client leaves the choice to the gateway."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class WeightShares(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Three shares that sum to 1."""

    quality: float
    cost: float
    latency: float


class ModelSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A model that instances serve, and what is expected of it.

    quality (0 to 1) and length (output tokens) stand where no predictor knows better. predict_as:
    the predictor's name of it, or a blend of names with shares (a token-routed pair writes like a
    bit of both); None: its own name. Prices are USD for 1M tokens. tpot_s: seconds per output
    token. prefill_rate: prompt tokens a second, 0: no time. slots: requests decoded at once.
    context: tokens of prompt and answer together.
    """

    name: Name
    quality: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    length: Annotated[float, msgspec.Meta(ge=1)] = 256.0
    predict_as: str | dict[str, float] | None = None
    price_in: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    price_out: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    tpot_s: Seconds = 0.02
    prefill_rate: Annotated[float, msgspec.Meta(gt=0)] = 5000.0
    slots: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] = 64
    context: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] = 32_768
    capabilities: tuple[Capability, ...] = CAPABILITIES


class GroupSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A token-routed group, which the gateway starts as a server of its own (`trserve launch`).

    preset or config: as that command's. changes: as its `--set`.
    """

    name: Name
    preset: str | None = None
    config: str | None = None
    changes: list[str] = msgspec.field(default_factory=list, name="set")


class InstanceSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A server of one model, or a local group at one threshold.

    url: of an OpenAI-compatible server, without `/v1`. group: a local group's name instead, with
    `threshold` (its router's) or `only` (one of its models) for requests sent by this entry.
    upstream_model: the server's name of the model (default: `model`; a group's own name).
    api_key_env: variable with the key to send. concurrency: most requests sent to it at once; the
    others wait here. metrics_path: null for no telemetry. tier: what TPOT heads call it.
    tpot_s, slots, context: where they differ from the model's.
    """

    name: Name
    model: str
    url: str | None = None
    group: str | None = None
    threshold: float | None = None
    only: str | None = None
    upstream_model: str | None = None
    api_key_env: str | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=1)] | None = None
    health_path: str = "/health"
    metrics_path: str | None = "/metrics"
    tier: str | None = None
    tpot_s: Seconds | None = None
    slots: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] | None = None
    context: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] | None = None


class AliasSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A name that stands for some models, with weights of its own if it has any."""

    models: Annotated[list[str], msgspec.Meta(min_length=1)]
    weights: str | WeightShares | None = None


class Timeouts(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Seconds: to connect, until the first byte of a stream, and between two pieces of it.

    whole_s: until an answer that is no stream. client_s: how long a client may read nothing of what
    there is, or take to send its request.
    """

    connect_s: Seconds = 2.0
    first_byte_s: Seconds = 120.0
    whole_s: Seconds = 600.0
    idle_s: Seconds = 60.0
    client_s: Seconds = 300.0


class Retries(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Before the first byte only, elsewhere if possible.

    attempts: most tries of one request. budget: retries per request, in the mean.
    """

    attempts: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3
    budget: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2


class Breaker(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """After so many failures in a row an instance is left alone, first for `cooldown_s`."""

    failures: Annotated[int, msgspec.Meta(ge=1)] = 5
    cooldown_s: Seconds = 5.0


class Checks(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How often instances are asked for health and load, and how long an answer may take."""

    health_s: Seconds = 2.0
    health_timeout_s: Seconds = 3.0
    telemetry_s: Seconds = 0.2
    telemetry_timeout_s: Seconds = 1.0


class Slo(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Weights lean toward latency while the mean time of requests is above `target_s`."""

    target_s: Seconds


class GatewayConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """See the sections; `server` is read apart, by trserve.settings.

    policy: as of `rbalance.open_policy`. batching: `natural`: whoever came while the last batch was
    decided is the next one; `adaptive`: as the article, batches wait for more requests.
    predictor: a folder made by `rbalance fit`, or `none`. predict_deadline_s: after it a batch is
    decided by the models' means. tpot: `static`, `online`, or a folder made by `rbalance fit-tpot`.
    max_waiting: requests under way at once, beyond which the gateway says 429. spare: instances
    that may be added while it runs.
    """

    models: Annotated[list[ModelSpec], msgspec.Meta(min_length=1)]
    instances: list[InstanceSpec] = []
    groups: list[GroupSpec] = []
    aliases: dict[str, AliasSpec] = {}
    policy: str = "route-balance"
    batching: Literal["natural", "adaptive"] = "natural"
    weights: str | WeightShares = "balanced"
    predictor: str = "none"
    predict_deadline_s: Seconds = 0.25
    tpot: str = "static"
    slo: Slo | None = None
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    breaker: Breaker = Breaker()
    checks: Checks = Checks()
    max_waiting: Annotated[int, msgspec.Meta(ge=1)] = 4096
    spare: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 64

    def model(self, name: str) -> ModelSpec:
        """Raises KeyError."""
        return next(model for model in self.models if model.name == name)


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "models": ModelSpec,
    "instances": InstanceSpec,
    "groups": GroupSpec,
    "aliases": AliasSpec,
    "timeouts": Timeouts,
    "retries": Retries,
    "breaker": Breaker,
    "checks": Checks,
    "slo": Slo,
    "weights": WeightShares,
}


def gateway_config(data: dict[str, Any]) -> GatewayConfig:
    """Checked in every way that the text alone allows. Raises ConfigError naming the field."""
    config = _converted(data)
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


def _converted(data: dict[str, Any]) -> GatewayConfig:
    """Msgspec names the object of an unknown field: name the field itself, and one alike."""
    try:
        return converted(data, GatewayConfig, "configuration")
    except ConfigError as error:
        unknown = re.search(r"Object contains unknown field `(.+)`", error.message)
        if unknown is None:
            raise
        section = re.sub(r"\[.*", "", error.field)
        known = _SECTIONS.get(section, GatewayConfig).__struct_fields__
        whole = "" if error.field == "configuration" else f"{error.field}."
        close = get_close_matches(unknown[1], known, n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"{whole}{unknown[1]}", f"unknown setting{hint}") from error


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
