"""All policies by name: those that a live balancer can use, and the baselines that need labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbalance.policies import registry
from rbalance.policies.registry import LIVE, by_model
from rbalance.simulator.baselines.avengers_pro import fit_avengers_pro
from rbalance.simulator.baselines.best_route import fit_best_route
from rbalance.simulator.baselines.cocktail import Cocktail
from rbalance.simulator.baselines.route_llm import fit_route_llm
from rbalance.simulator.baselines.semantic_router import fit_semantic_router
from rbalance.simulator.baselines.tabi import Tabi

if TYPE_CHECKING:
    from rbalance.policies.model_first import ModelRouter
    from rbalance.policies.policy import Policy
    from rbalance.policies.registry import Ingredients, Opener, Options


def open_policy(text: str, of: Ingredients, seed: int = 0) -> Policy:
    """The policy that a text names, trained where it has to be.

    Raises ConfigError: an unknown name or option, a value that cannot be, no labels to train on.
    """
    return registry.open_policy(text, of, seed, POLICIES)


def _avengers_pro(of: Ingredients, options: Options) -> ModelRouter:
    weight = options.number("p_w", 0.53)
    clusters = int(options.number("clusters", 32, 1, 4096))
    return fit_avengers_pro(of.training, weight, clusters, int(options.number("top_k", 1, 1, 64)))


def _best_route(of: Ingredients, options: Options) -> ModelRouter:
    threshold = options.number("threshold", 0.5)
    return fit_best_route(of.training, threshold, int(options.number("best_of", 1, 1, 8)))


def _route_llm(of: Ingredients, options: Options) -> ModelRouter:
    return fit_route_llm(of.training, strong_share=options.number("strong_share", 0.5))


def _semantic_router(of: Ingredients, options: Options) -> ModelRouter:
    return fit_semantic_router(of.training, options.number("tolerance", 0.05))


def _tabi(of: Ingredients, options: Options) -> ModelRouter:
    data = of.training
    cascade = dict.fromkeys((int(data.cheapest_first[0]), data.strongest))
    return Tabi(tuple(cascade), options.number("trust", 0.5))


def _cocktail(of: Ingredients, options: Options) -> ModelRouter:
    order = tuple(int(model) for model in of.training.cheapest_first)
    members = int(options.number("members", 3, 1, 7))
    return Cocktail(order, options.number("target", 0.5), members)


POLICIES: dict[str, Opener] = {
    **LIVE,
    "avengers-pro": by_model(_avengers_pro),
    "best-route": by_model(_best_route),
    "route-llm": by_model(_route_llm),
    "semantic-router": by_model(_semantic_router),
    "tabi": by_model(_tabi),
    "cocktail": by_model(_cocktail),
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
