"""A gateway's parts without a server: what decides, and the instances."""

from __future__ import annotations

from typing import Any

from trserve.gateway.balancing import Balancing, open_balancing
from trserve.gateway.config import GatewayConfig
from trserve.gateway.config_checks import gateway_config
from trserve.gateway.pool import Pool


def small_config(**sections: Any) -> GatewayConfig:
    """One model and no instance; sections given replace those here."""
    return gateway_config({"models": [{"name": "small"}], **sections})


def instance(name: str, model: str = "small", **fields: Any) -> dict[str, Any]:
    """An entry of `instances` at an address of its own, where nobody listens."""
    return {"name": name, "model": model, "url": f"http://127.0.0.1:9/{name}", **fields}


def opened(config: GatewayConfig) -> tuple[Balancing, Pool]:
    """All instances of the configuration are there, and up."""
    balancing = open_balancing(config)
    pool = Pool(config, balancing, {})
    for at, spec in enumerate(config.instances):
        pool.add(spec, f"instances[{at}]")
    return balancing, pool
