"""From a configuration to what chooses: instance state, predictor, policy, weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rbalance import (
    Cluster,
    FixedPredictor,
    Foreseen,
    Foresight,
    Ingredients,
    InstanceState,
    KnnPredictor,
    MappedPredictor,
    RbalanceError,
    SentenceEmbedder,
    SloController,
    SloSettings,
    Tier,
    load_predictor,
    open_policy,
)
from rbalance import ConfigError as BalanceConfigError
from rbalance.policies.route_balance import RouteBalance
from trsched.errors import ConfigError
from trserve.gateway.config import GatewayConfig, weights_of

if TYPE_CHECKING:
    from rbalance import BalancerStats, Predictor, Weights
    from rbalance.mapped_predictor import PredictAs
    from rbalance.policies.policy import Policy
    from rbalance.tpot.model import TpotModel
    from trserve.gateway.gateway_metrics import GatewayMetrics

T = TypeVar("T")

_TOO_MANY_ANSWERS = ("tabi", "cocktail")
_EVERY_S = 1.0  # so often an SLO moves the weights


@dataclass(slots=True)
class Balancing:
    """What decides. `place` tells what learns by instance of a new one."""

    state: InstanceState
    policy: Policy
    predictor: Predictor
    deadline_s: float
    tpot: TpotModel | None
    slo: SloController | None
    _moved_at: float = field(default=0.0)

    def foresight(self, stats: BalancerStats, metrics: GatewayMetrics) -> Foresight:
        """Predictions for batches, as this pool wants them."""
        predictor = self.predictor

        def predict(prompts: Sequence[str]) -> Foreseen:
            began = time.perf_counter()
            foreseen = Foreseen(predictor.predict(prompts))
            metrics.batch(len(prompts), time.perf_counter() - began)
            return foreseen

        instant = predictor.instant
        return Foresight(predict, predictor.prior, self.deadline_s, stats, instant)

    def place(self, number: int, tier: Tier) -> None:
        """An instance has come. Raises ConfigError: of a tier that nothing is known of."""
        if (tpot := self.tpot) is not None:
            _named("tier", lambda: tpot.place(number, tier))

    @property
    def weights(self) -> Weights | None:
        """Those in force; None for a policy without."""
        return self.policy.weights if isinstance(self.policy, RouteBalance) else None

    def configure(self, config: GatewayConfig) -> None:
        """Other weights from now on."""
        if isinstance(self.policy, RouteBalance):
            self.policy.weights = weights_of(config.weights, "weights")
            self.slo = _slo(config)

    def ended(self, seconds: float, now: float) -> None:
        """A request took so long."""
        if self.slo is not None and isinstance(self.policy, RouteBalance):
            self.slo.observe(seconds)
            if now - self._moved_at >= _EVERY_S:
                self._moved_at = now
                self.policy.weights = self.slo.move(now)


def open_balancing(config: GatewayConfig) -> Balancing:
    """Load predictor and heads; takes seconds if there are any. Raises ConfigError."""
    cluster = Cluster(
        tuple(
            Tier(
                name=model.name,
                model=model.name,
                instances=0,
                price_in=model.price_in,
                price_out=model.price_out,
                tpot_s=model.tpot_s,
                prefill_rate=model.prefill_rate,
            )
            for model in config.models
        )
    )
    predictor = _predictor(config)
    capacity = max(1, len(config.instances) + config.spare)
    state = InstanceState(cluster, predictor.prior.length.tolist(), capacity=capacity)
    tpot = _named("tpot", lambda: _tpot(config, capacity))
    policy = _named("policy", lambda: _policy(config, cluster, predictor, tpot))
    return Balancing(state, policy, predictor, config.predict_deadline_s, tpot, _slo(config))


def _policy(
    config: GatewayConfig, cluster: Cluster, predictor: Predictor, tpot: TpotModel | None
) -> Policy:
    name = config.policy.partition(":")[0]
    if name in _TOO_MANY_ANSWERS or "best_of=" in config.policy:
        raise ConfigError("policy", f"{config.policy!r} asks several models for one answer")
    ingredients = Ingredients(cluster, predictor.prior, tpot=lambda kind: tpot)
    policy = open_policy(config.policy, ingredients)
    if isinstance(policy, RouteBalance):
        if "weights=" in config.policy or "tpot=" in config.policy:
            raise ConfigError("policy", "weights and tpot have settings of their own")
        policy.weights = weights_of(config.weights, "weights")
    return policy


def _predictor(config: GatewayConfig) -> Predictor:
    """What is expected of the pool's models, in their order."""
    given = {model.name: (model.quality, model.length) for model in config.models}
    if config.predictor == "none":
        known: Predictor = FixedPredictor(given)
    else:
        known = _named("predictor", lambda: _knn(Path(config.predictor)))
    columns: dict[str, PredictAs] = {}
    for model in config.models:
        knows = model.name in known.prior.models
        columns[model.name] = model.predict_as or (model.name if knows else given[model.name])
    return _named("predictor", lambda: MappedPredictor(known, columns))


def _knn(folder: Path) -> Predictor:
    predictor = KnnPredictor(load_predictor(folder), SentenceEmbedder())
    predictor.predict(["Warm up."])  # the first call is slow
    return predictor


def _tpot(config: GatewayConfig, capacity: int) -> TpotModel | None:
    if config.tpot == "static":
        return None
    if config.tpot == "online":
        from rbalance.tpot.online import OnlineTpot

        return OnlineTpot([1.0] * capacity)
    from rbalance.tpot.heads_artefact import load_heads
    from rbalance.tpot.xgboost_tpot import XgboostTpot

    return XgboostTpot(load_heads(Path(config.tpot)), [None] * capacity)


def _slo(config: GatewayConfig) -> SloController | None:
    if config.slo is None:
        return None
    base = weights_of(config.weights, "weights")
    return SloController(SloSettings(target_s=config.slo.target_s, base=base))


def _named(field: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except BalanceConfigError as error:
        raise ConfigError(error.field, str(error).partition(": ")[2]) from error
    except (RbalanceError, OSError) as error:
        raise ConfigError(field, str(error)) from error
