"""From a configuration to what chooses: instance state, predictor, policy, weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    MissingExtraError,
    RbalanceError,
    SentenceEmbedder,
    SloController,
    SloSettings,
    Tier,
    WeightedPolicy,
    load_predictor,
    open_policy,
)
from rbalance import ConfigError as BalanceConfigError
from trsched.errors import ConfigError
from trserve.gateway.config.checks import weights_of
from trserve.gateway.config.config import GatewayConfig

if TYPE_CHECKING:
    from rbalance import BalancerStats, Predictor, Weights
    from rbalance.policies.policy import Policy
    from rbalance.predict.mapped_predictor import PredictAs
    from rbalance.tpot.heads import TpotHeads
    from rbalance.tpot.model import TpotModel

T = TypeVar("T")

_TOO_MANY_ANSWERS = ("tabi", "cocktail")
_EVERY_S = 1.0  # so often an SLO moves the weights
_STALE_AFTER, _FORGOTTEN_AFTER = 5, 50  # missed readings; not before 1 and 10 s


@dataclass(slots=True)
class Balancing:
    """What decides.

    state: what the balancer sees of the instances.
    policy: chooses among them.
    predictor: of answers' quality and length.
    deadline_s: after it a batch is decided without predictions.
    tpot: what learns seconds per token by instance; None: nothing does.
    slo: where the weights lean to; None: nowhere.
    tiers: those that times per token are known of; None: all.
    """

    state: InstanceState
    policy: Policy
    predictor: Predictor
    deadline_s: float
    tpot: TpotModel | None
    slo: SloSettings | None
    tiers: frozenset[str] | None
    _controller: SloController | None = None
    _moved_at: float = 0.0

    def foresight(self, stats: BalancerStats, on_batch: Callable[[int, float], None]) -> Foresight:
        """Predictions for batches, as this pool wants them.

        on_batch: told of each batch its size and the predictor's seconds.
        """
        predictor = self.predictor

        def predict(prompts: Sequence[str]) -> Foreseen:
            began = time.perf_counter()
            foreseen = Foreseen(predictor.predict(prompts))
            on_batch(len(prompts), time.perf_counter() - began)
            return foreseen

        instant = predictor.instant
        return Foresight(predict, predictor.prior, self.deadline_s, stats, instant)

    def check_tier(self, name: str, field: str) -> None:
        """Raises ConfigError naming `field`: nothing is known of instances of that tier."""
        if self.tiers is not None and name not in self.tiers:
            known = ", ".join(sorted(self.tiers))
            raise ConfigError(field, f"no TPOT head for {name!r}; there are {known}")

    def place(self, number: int, tier: Tier) -> None:
        """An instance has come, of a tier that was checked."""
        if self.tpot is not None:
            self.tpot.place(number, tier)

    @property
    def weights(self) -> Weights | None:
        """Those in force; None for a policy without."""
        return self.policy.weights if isinstance(self.policy, WeightedPolicy) else None

    def configure(self, config: GatewayConfig) -> None:
        """Other weights from now on."""
        if isinstance(self.policy, WeightedPolicy):
            base = weights_of(config.weights, "weights")
            if self._controller is None:
                self.policy.weights = base
            else:
                self._controller.rebase(base)
                self.policy.weights = self._controller.weights
            self.slo = _slo(config)

    def ended(self, seconds: float, now: float) -> None:
        """A request was served in so long."""
        if self.slo is None or not isinstance(self.policy, WeightedPolicy):
            return
        if self._controller is None:
            self._controller = SloController(self.slo, now)
        self._controller.observe(seconds)
        if now - self._moved_at >= _EVERY_S:
            self._moved_at = now
            self.policy.weights = self._controller.move(now)


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
    state = InstanceState(
        cluster,
        predictor.prior.length.tolist(),
        capacity=capacity,
        stale_s=max(1.0, _STALE_AFTER * config.checks.telemetry_s),
        forget_s=max(10.0, _FORGOTTEN_AFTER * config.checks.telemetry_s),
    )
    heads = _heads(config)
    tiers = None if heads is None else frozenset(heads.boosters)
    tpot = _named("tpot", lambda: _tpot(config, capacity, heads))
    policy = _named("policy", lambda: _policy(config, cluster, predictor, tpot))
    deadline_s = config.predict_deadline_s
    return Balancing(state, policy, predictor, deadline_s, tpot, _slo(config), tiers)


def _policy(
    config: GatewayConfig, cluster: Cluster, predictor: Predictor, tpot: TpotModel | None
) -> Policy:
    name = config.policy.partition(":")[0]
    if name in _TOO_MANY_ANSWERS or "best_of=" in config.policy:
        raise ConfigError("policy", f"{config.policy!r} asks several models for one answer")
    ingredients = Ingredients(cluster, predictor.prior, tpot=lambda kind: tpot)
    policy = open_policy(config.policy, ingredients)
    if isinstance(policy, WeightedPolicy):
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


def _heads(config: GatewayConfig) -> TpotHeads | None:
    if config.tpot in ("static", "online"):
        return None
    from rbalance.tpot.heads_artefact import load_heads

    return _named("tpot", lambda: load_heads(Path(config.tpot)))


def _tpot(config: GatewayConfig, capacity: int, heads: TpotHeads | None) -> TpotModel | None:
    if heads is not None:
        from rbalance.tpot.xgboost_tpot import XgboostTpot

        return XgboostTpot(heads, [None] * capacity)
    if config.tpot == "online":
        from rbalance.tpot.online import OnlineTpot

        return OnlineTpot([1.0] * capacity)
    return None


def _slo(config: GatewayConfig) -> SloSettings | None:
    if config.slo is None:
        return None
    return SloSettings(target_s=config.slo.target_s, base=weights_of(config.weights, "weights"))


def _named(field: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except BalanceConfigError as error:
        raise ConfigError(error.field, error.message) from error
    except MissingExtraError as error:
        hint = "pip install 'trserve[predict]'"
        raise ConfigError(field, f"{error.name} is not installed: {hint}") from error
    except (RbalanceError, OSError) as error:
        raise ConfigError(field, str(error)) from error
