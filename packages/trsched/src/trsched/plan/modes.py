"""A group's configuration in the modes that routing is compared with."""

from __future__ import annotations

from msgspec.structs import replace as changed

from trsched.plan.config import GroupConfig, RouterConfig


def in_mode(config: GroupConfig) -> GroupConfig:
    """The configuration that `config.mode` stands for, itself in mode `routed`.

    `llm-only`, `slm-only`: the last or the first model alone, with the whole KV budget. `official`:
    as the algorithms' own code runs, one request after another, the models taking turns. Without
    delayed batching, as in all of these, thresholds are 1.
    """
    if config.mode != "routed":
        config = changed(config, delayed_batching="off")
    if config.delayed_batching == "off":
        config = changed(config, models=[changed(each, threshold=1) for each in config.models])
    if config.mode == "routed":
        return config
    if config.mode == "official":
        return changed(config, mode="routed", max_active=1)
    return changed(
        config,
        mode="routed",
        models=[config.models[-1 if config.mode == "llm-only" else 0]],
        router=RouterConfig("fixed"),
        execution="async",
        on_router_error="fail",
    )
