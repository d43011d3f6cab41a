"""A gateway's parts without a server: what decides, and the instances."""

from __future__ import annotations

from typing import Any

from trserve.gateway.config.checks import gateway_config
from trserve.gateway.config.config import GatewayConfig
from trserve.gateway.pool.balancing import Balancing, open_balancing
from trserve.gateway.pool.local_groups import GroupServer
from trserve.gateway.pool.pool import Pool
from trserve.openai.schemas.model_list import Routing, RoutingThreshold


def small_config(**sections: Any) -> GatewayConfig:
    """One model and no instance; sections given replace those here."""
    return gateway_config({"models": [{"name": "small"}], **sections})


def instance(name: str, model: str = "small", **fields: Any) -> dict[str, Any]:
    """An entry of `instances` at an address of its own, where nobody listens."""
    return {"name": name, "model": model, "url": f"http://127.0.0.1:9/{name}", **fields}


def group_server(url: str, *models: str, value: float | None = 0.2) -> GroupServer:
    """A local group that is said to run there, of these models or two; value None: no threshold."""
    threshold = None
    if value is not None:
        threshold = RoutingThreshold(name="p", value=value, low=0.0, high=1.0, meaning="A share.")
    routing = Routing(
        models=list(models) or ["small", "large"], router="bernoulli", threshold=threshold
    )
    return GroupServer(url, "key", routing)


def opened(config: GatewayConfig) -> tuple[Balancing, Pool]:
    """All instances of the configuration are there, and up."""
    balancing = open_balancing(config)
    pool = Pool(config, balancing, {})
    for at, spec in enumerate(config.instances):
        pool.add(spec, f"instances[{at}]")
    return balancing, pool
