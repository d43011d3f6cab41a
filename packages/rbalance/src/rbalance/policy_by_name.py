"""Every policy there is, by name; what needs the simulator is imported where labels are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbalance.policies import registry

if TYPE_CHECKING:
    from rbalance.policies.policy import Policy
    from rbalance.policies.registry import Ingredients


def open_policy(text: str, of: Ingredients, seed: int = 0) -> Policy:
    """The policy that a text names, such as `best-route:threshold=0.5,dispatch=round-robin`.

    Without `of.labelled` those that a live balancer can use; with it all, trained where they have
    to be.

    Raises ConfigError: an unknown name or option, a value that cannot be, no labels to train on.
    """
    if of.labelled is None:
        return registry.open_policy(text, of, seed)
    from rbalance.simulator.policy_registry import open_policy as open_any

    return open_any(text, of, seed)
