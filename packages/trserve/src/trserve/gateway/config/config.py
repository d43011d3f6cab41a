"""What a gateway is made of: models, instances that serve them, and how to choose between those."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Capability = Literal["tools", "logprobs", "n", "images", "json"]
CAPABILITIES: tuple[Capability, ...] = ("tools", "logprobs", "n", "images", "json")
"""What a request may ask of an instance: bit i of `Tier.capabilities` is CAPABILITIES[i]."""

AUTO = "auto"
"""The model's name by which a client leaves the choice to the gateway."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_MOST = 1e9  # of any measure: infinity is none of them
Seconds = Annotated[float, msgspec.Meta(gt=0, le=_MOST)]
Usd = Annotated[float, msgspec.Meta(ge=0, le=_MOST)]


class WeightShares(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How much each of the three counts; they sum to 1."""

    quality: float
    cost: float
    latency: float


class ModelSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A model that instances serve, and what is expected of it.

    name: for clients, and in instances.
    quality: 0 to 1, where no predictor knows better.
    length: output tokens, where no predictor knows better.
    predict_as: the predictor's name of it, or a blend of names with shares (a token-routed pair
        writes like a bit of both); None: its own name.
    price_in: USD for 1M prompt tokens.
    price_out: USD for 1M output tokens.
    tpot_s: seconds per output token.
    prefill_rate: prompt tokens a second.
    slots: requests decoded at once.
    context: most tokens of prompt and answer together.
    capabilities: what requests may ask of it.
    """

    name: Name
    quality: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    length: Annotated[float, msgspec.Meta(ge=1, le=_MOST)] = 256.0
    predict_as: str | dict[str, float] | None = None
    price_in: Usd = 0.0
    price_out: Usd = 0.0
    tpot_s: Seconds = 0.02
    prefill_rate: Annotated[float, msgspec.Meta(gt=0, le=_MOST)] = 5000.0
    slots: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] = 64
    context: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] = 32_768
    capabilities: tuple[Capability, ...] = CAPABILITIES


class GroupSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A token-routed group, which the gateway starts as a server of its own (`trserve launch`).

    name: for instances.
    preset: as that command's `--preset`; either this or `config`.
    config: as its `--config`.
    changes: as its `--set`.
    """

    name: Name
    preset: str | None = None
    config: str | None = None
    changes: list[str] = msgspec.field(default_factory=list, name="set")


class InstanceSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A server of one model, or a local group at one threshold.

    name: in logs, metrics and answers' headers.
    model: which of the gateway's models it serves.
    url: of an OpenAI-compatible server, without `/v1`; either this or `group`.
    group: a local group's name.
    threshold: the group's router's, for requests sent by this entry.
    only: the one model of the group that answers requests sent by this entry.
    upstream_model: the server's name of the model (default: `model`; a group's own name).
    api_key_env: variable with the key to send.
    concurrency: most requests sent to it at once; the others wait here.
    health_path: asked for its health.
    metrics_path: asked for its load; null for no telemetry.
    tier: what TPOT heads call it.
    tpot_s: where it differs from the model's.
    slots: where it differs from the model's.
    context: where it differs from the model's.
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
    """A name that stands for some models.

    models: their names.
    weights: for requests by this name; None: the gateway's.
    """

    models: Annotated[list[str], msgspec.Meta(min_length=1)]
    weights: str | WeightShares | None = None


class Timeouts(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How long instances and clients may take, in seconds.

    connect_s: to connect to an instance.
    first_byte_s: until the first byte of a stream.
    whole_s: until an answer that is no stream.
    idle_s: between two pieces of a stream.
    client_s: that a client may read nothing of what there is, or take to send its request.
    """

    connect_s: Seconds = 2.0
    first_byte_s: Seconds = 120.0
    whole_s: Seconds = 600.0
    idle_s: Seconds = 60.0
    client_s: Seconds = 300.0


class Retries(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Before the first byte only, elsewhere if possible.

    attempts: most tries of one request.
    budget: retries per request, in the mean.
    """

    attempts: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3
    budget: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2


class Breaker(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """When an instance is left alone.

    failures: so many in a row.
    cooldown_s: seconds that it is left alone at first.
    """

    failures: Annotated[int, msgspec.Meta(ge=1)] = 5
    cooldown_s: Seconds = 5.0


class Checks(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How often instances are asked for health and load, in seconds.

    health_s: between two questions for health.
    health_timeout_s: that the answer may take.
    telemetry_s: between two questions for load.
    telemetry_timeout_s: that the answer may take.
    """

    health_s: Seconds = 2.0
    health_timeout_s: Seconds = 3.0
    telemetry_s: Seconds = 0.2
    telemetry_timeout_s: Seconds = 1.0


class Slo(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Weights lean toward latency while requests are slow.

    target_s: slow is a mean time of requests above so many seconds.
    """

    target_s: Seconds


class GatewayConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The file without its `server` section, which trserve.settings.server_settings reads.

    models: that instances serve.
    instances: of which one answers each request.
    groups: that the gateway starts itself.
    aliases: by the names that clients use.
    policy: how one is chosen, as of `rbalance.open_policy`.
    batching: `natural`: whoever came while the last batch was decided is the next one; `adaptive`:
        as the article, batches wait for more requests.
    weights: of quality, cost and latency: a preset's name, "0.6/0.2/0.2", or three shares.
    predictor: a folder made by `rbalance fit`, or `none`.
    predict_deadline_s: seconds after which a batch is decided by the models' means.
    tpot: `static`, `online`, or a folder made by `rbalance fit-tpot`.
    slo: None: weights stay as they are.
    timeouts: of instances and clients.
    retries: of requests that failed before their first byte.
    breaker: when an instance is left alone.
    checks: of instances.
    max_waiting: requests under way at once, beyond which the gateway says 429.
    spare: instances that may be added while it runs.
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
