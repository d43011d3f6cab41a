"""The policies that a live balancer can use, by name, with their options as text.

`passthrough:model=small,dispatch=round-robin`. Those that are trained on labelled prompts are in
rbalance.simulator.policy_registry; their names are known here, so that they can be refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from rbalance.errors import ConfigError
from rbalance.policies.decoupled import Decoupled
from rbalance.policies.dispatch import DISPATCHES
from rbalance.policies.infaas import Infaas
from rbalance.policies.model_first import ModelFirst
from rbalance.policies.passthrough import Passthrough
from rbalance.policies.route_balance import RouteBalance, ScoreRules
from rbalance.policies.weights import parse_weights

if TYPE_CHECKING:
    from rbalance.cluster import Cluster
    from rbalance.labels.embedded_labels import Labelled
    from rbalance.policies.model_first import ModelRouter
    from rbalance.policies.policy import Policy
    from rbalance.predict.predictions import Prior
    from rbalance.tpot.model import TpotModel


@dataclass(frozen=True, slots=True, eq=False)
class Ingredients:
    """What policies are made of.

    cluster: the tiers, in the order of the state's models.
    prior: what stands in for predictions; columns in the same order.
    labelled: for the simulator's policies that are trained; None: they cannot be had.
    tpot: the estimates of time per token by name: `static`, `xgboost` or `online`; None: the
        tiers' own.
    """

    cluster: Cluster
    prior: Prior
    labelled: Labelled | None = None
    tpot: Callable[[str], TpotModel | None] = lambda kind: None

    @property
    def training(self) -> Labelled:
        """Raises ConfigError if there is none."""
        if self.labelled is None:
            raise _no_labels()
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
        known = sorted((*LIVE, *NEED_LABELS))
        if name not in known:
            raise ConfigError("policy", f"{name!r} is none of {', '.join(known)}")
        options = {}
        for part in filter(None, rest.split(",")):
            key, equals, value = part.partition("=")
            if not equals or not value:
                raise ConfigError(f"policy.{name}", f"{part!r} is not key=value")
            options[key] = value
        return cls(name, options)


class Options:
    """Takes options one by one, and complains about what is left."""

    def __init__(self, spec: PolicySpec) -> None:
        self._name = spec.name
        self._left = dict(spec.options)

    def text(self, key: str, default: str, *known: str) -> str:
        """As given; `known`: the values there are, any if none are named. Raises ConfigError."""
        value = self._left.pop(key, default)
        if known and value not in known:
            raise ConfigError(
                f"policy.{self._name}.{key}", f"{value!r} is none of {', '.join(known)}"
            )
        return value

    def number(self, key: str, default: float, low: float = 0.0, high: float = 1.0) -> float:
        """From `low` to `high`. Raises ConfigError."""
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
        """Raises ConfigError naming an option that nobody took."""
        if self._left:
            raise ConfigError(f"policy.{self._name}", f"has no option {min(self._left)!r}")


Opener: TypeAlias = Callable[[Ingredients, Options, int], "Policy"]
"""Makes a policy of what there is, its options, and a seed for what it draws."""


def open_policy(
    text: str, of: Ingredients, seed: int = 0, openers: Mapping[str, Opener] | None = None
) -> Policy:
    """The policy that a text names.

    openers: by name; None: LIVE.

    Raises ConfigError: an unknown name or option, a value that cannot be, or a policy that is
    trained on labels and not among the openers.
    """
    spec = PolicySpec.parse(text)
    opener = (LIVE if openers is None else openers).get(spec.name)
    if opener is None:
        raise _no_labels()
    options = Options(spec)
    policy = opener(of, options, seed)
    options.finish()
    return policy


def _no_labels() -> ConfigError:
    return ConfigError("policy", "this one is trained on labelled prompts; there are none")


def by_model(make: Callable[[Ingredients, Options], ModelRouter]) -> Opener:
    """Opens a router of models with an instance's choice behind it: the option `dispatch`."""

    def open_(of: Ingredients, options: Options, seed: int) -> Policy:
        dispatch = options.text("dispatch", "shortest-queue", *DISPATCHES)
        return ModelFirst(make(of, options), DISPATCHES[dispatch], seed)

    return open_


def _route_balance(of: Ingredients, options: Options, seed: int) -> Policy:
    weights = parse_weights(options.text("weights", "uniform"))
    tpot = of.tpot(options.text("tpot", "static", "static", "xgboost", "online"))
    norm = options.text("norm", "none", "none", "minmax")
    order = options.text("order", "lpt", "lpt", "arrival")
    rules: dict[str, Any] = {"quality_norm": norm, "order": order}
    return RouteBalance(weights, of.prior, tpot, ScoreRules(**rules))


def _balancer(dispatch: str) -> Opener:
    return lambda of, options, seed: ModelFirst(None, DISPATCHES[dispatch], seed)


def _passthrough(of: Ingredients, options: Options) -> ModelRouter:
    models = of.cluster.models
    return Passthrough(models.index(options.text("model", models[0], *models)))


def _decoupled(of: Ingredients, options: Options) -> ModelRouter:
    return Decoupled(parse_weights(options.text("weights", "uniform")), of.cluster)


def _infaas(of: Ingredients, options: Options, seed: int) -> Policy:
    least = options.number("accuracy", 0.0)
    return Infaas(of.prior.quality, least, options.number("latency_s", 5.0, 0.0, float("inf")))


LIVE: dict[str, Opener] = {
    "route-balance": _route_balance,
    "decoupled": by_model(_decoupled),
    "passthrough": by_model(_passthrough),
    "random": _balancer("random"),
    "round-robin": _balancer("round-robin"),
    "shortest-queue": _balancer("shortest-queue"),
    "power-of-two": _balancer("power-of-two"),
    "infaas": _infaas,
}
"""Names to what opens them."""

NEED_LABELS = ("avengers-pro", "best-route", "cocktail", "route-llm", "semantic-router", "tabi")
"""Those of the simulator alone."""
