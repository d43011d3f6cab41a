"""All policies by name, with their options: `best-route:threshold=0.5,dispatch=round-robin`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rbalance.errors import ConfigError
from rbalance.policies.decoupled import Decoupled
from rbalance.policies.dispatch import DISPATCHES
from rbalance.policies.infaas import Infaas
from rbalance.policies.model_first import ModelFirst
from rbalance.policies.passthrough import Passthrough
from rbalance.policies.route_balance import RouteBalance, ScoreRules
from rbalance.policies.weights import parse_weights
from rbalance.simulator.baselines.avengers_pro import fit_avengers_pro
from rbalance.simulator.baselines.best_route import fit_best_route
from rbalance.simulator.baselines.cocktail import Cocktail
from rbalance.simulator.baselines.route_llm import fit_route_llm
from rbalance.simulator.baselines.semantic_router import fit_semantic_router
from rbalance.simulator.baselines.tabi import Tabi

if TYPE_CHECKING:
    from collections.abc import Callable

    from rbalance.cluster import Cluster
    from rbalance.policies.model_first import ModelRouter
    from rbalance.policies.policy import Policy
    from rbalance.predict.predictions import Prior
    from rbalance.simulator.baselines.labelled import Labelled
    from rbalance.tpot.model import TpotModel


@dataclass(frozen=True, slots=True, eq=False)
class Ingredients:
    """What policies are made of; labelled None: those that are trained cannot be had."""

    cluster: Cluster
    prior: Prior
    labelled: Labelled | None = None
    tpot: Callable[[str], TpotModel | None] = lambda kind: None

    @property
    def training(self) -> Labelled:
        """Raises ConfigError if there is none."""
        if self.labelled is None:
            raise ConfigError("policy", "this one is trained on labelled prompts; there are none")
        return self.labelled


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy's name and its options as text."""

    name: str
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> PolicySpec:
        """`name` or `name:key=value,key=value`. Raises ConfigError."""
        name, _, rest = text.partition(":")
        if name not in POLICIES:
            raise ConfigError("policy", f"{name!r} is none of {', '.join(sorted(POLICIES))}")
        options = {}
        for part in filter(None, rest.split(",")):
            key, equals, value = part.partition("=")
            if not equals or not value:
                raise ConfigError(f"policy.{name}", f"{part!r} is not key=value")
            options[key] = value
        return cls(name, options)


class _Options:
    """Takes options one by one, and complains about what is left."""

    def __init__(self, spec: PolicySpec) -> None:
        self._name = spec.name
        self._left = dict(spec.options)

    def text(self, key: str, default: str, *known: str) -> str:
        value = self._left.pop(key, default)
        if known and value not in known:
            raise ConfigError(
                f"policy.{self._name}.{key}", f"{value!r} is none of {', '.join(known)}"
            )
        return value

    def number(self, key: str, default: float, low: float = 0.0, high: float = 1.0) -> float:
        text = self._left.pop(key, None)
        try:
            value = default if text is None else float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ConfigError(
                f"policy.{self._name}.{key}", f"must be from {low:g} to {high:g}, not {text}"
            )
        return value

    def finish(self) -> None:
        if self._left:
            raise ConfigError(f"policy.{self._name}", f"has no option {min(self._left)!r}")


def open_policy(text: str, of: Ingredients, seed: int = 0) -> Policy:
    """The policy that a text names, trained where it has to be.

    Raises ConfigError: an unknown name or option, a value that cannot be.
    """
    spec = PolicySpec.parse(text)
    options = _Options(spec)
    policy = POLICIES[spec.name](of, options, seed)
    options.finish()
    return policy


def _route_balance(of: Ingredients, options: _Options, seed: int) -> Policy:
    weights = parse_weights(options.text("weights", "uniform"))
    tpot = of.tpot(options.text("tpot", "static", "static", "xgboost", "online"))
    norm = options.text("norm", "none", "none", "minmax")
    order = options.text("order", "lpt", "lpt", "arrival")
    rules: dict[str, Any] = {"quality_norm": norm, "order": order}
    return RouteBalance(weights, of.prior, tpot, ScoreRules(**rules))


def _balancer(dispatch: str) -> Callable[[Ingredients, _Options, int], Policy]:
    return lambda of, options, seed: ModelFirst(None, DISPATCHES[dispatch], seed)


def _routed(
    make: Callable[[Ingredients, _Options], ModelRouter],
) -> Callable[[Ingredients, _Options, int], Policy]:
    def open_(of: Ingredients, options: _Options, seed: int) -> Policy:
        dispatch = options.text("dispatch", "shortest-queue", *DISPATCHES)
        return ModelFirst(make(of, options), DISPATCHES[dispatch], seed)

    return open_


def _passthrough(of: Ingredients, options: _Options) -> ModelRouter:
    models = of.cluster.models
    return Passthrough(models.index(options.text("model", models[0], *models)))


def _decoupled(of: Ingredients, options: _Options) -> ModelRouter:
    return Decoupled(parse_weights(options.text("weights", "uniform")), of.cluster)


def _avengers_pro(of: Ingredients, options: _Options) -> ModelRouter:
    weight = options.number("p_w", 0.53)
    clusters = int(options.number("clusters", 32, 1, 4096))
    return fit_avengers_pro(of.training, weight, clusters, int(options.number("top_k", 1, 1, 64)))


def _best_route(of: Ingredients, options: _Options) -> ModelRouter:
    threshold = options.number("threshold", 0.5)
    return fit_best_route(of.training, threshold, int(options.number("best_of", 1, 1, 8)))


def _route_llm(of: Ingredients, options: _Options) -> ModelRouter:
    return fit_route_llm(of.training, strong_share=options.number("strong_share", 0.5))


def _semantic_router(of: Ingredients, options: _Options) -> ModelRouter:
    return fit_semantic_router(of.training, options.number("tolerance", 0.05))


def _tabi(of: Ingredients, options: _Options) -> ModelRouter:
    data = of.training
    cascade = dict.fromkeys((int(data.cheapest_first[0]), data.strongest))
    return Tabi(tuple(cascade), options.number("trust", 0.5))


def _cocktail(of: Ingredients, options: _Options) -> ModelRouter:
    order = tuple(int(model) for model in of.training.cheapest_first)
    members = int(options.number("members", 3, 1, 7))
    return Cocktail(order, options.number("target", 0.5), members)


def _infaas(of: Ingredients, options: _Options, seed: int) -> Policy:
    least = options.number("accuracy", 0.0)
    return Infaas(of.prior.quality, least, options.number("latency_s", 5.0, 0.0, float("inf")))


POLICIES: dict[str, Callable[[Ingredients, _Options, int], Policy]] = {
    "route-balance": _route_balance,
    "decoupled": _routed(_decoupled),
    "passthrough": _routed(_passthrough),
    "random": _balancer("random"),
    "round-robin": _balancer("round-robin"),
    "shortest-queue": _balancer("shortest-queue"),
    "power-of-two": _balancer("power-of-two"),
    "avengers-pro": _routed(_avengers_pro),
    "best-route": _routed(_best_route),
    "route-llm": _routed(_route_llm),
    "semantic-router": _routed(_semantic_router),
    "tabi": _routed(_tabi),
    "cocktail": _routed(_cocktail),
    "infaas": _infaas,
}
"""Names to what opens them."""

DEPLOYED = {
    "route-balance": "batched",
    "decoupled": "batched",
    "avengers-pro": "batched",
    "best-route": "concurrent",
    "route-llm": "batched",
    "semantic-router": "external",
    "tabi": "batched",
    "cocktail": "batched",
    "infaas": "instant",
}
"""The usual deployment of each, see rbalance.simulator.scheduler; "instant" for the others."""
