"""A group's plan for people: memory, batches, routing."""

from __future__ import annotations

from trsched.plan.config import GroupConfig
from trsched.plan.gpu_memory import RankMemory, gpu_lines
from trsched.plan.kv_budget import KvPlan


def plan_lines(
    config: GroupConfig, kv: KvPlan | None, max_active: int | None, memory: tuple[RankMemory, ...]
) -> list[str]:
    """A line each.

    kv, max_active: None where not known.
    memory: of ranks on GPUs.
    """
    lines = [f"router {config.router.name} {config.router.settings or ''}".rstrip()]
    for i, model in enumerate(config.models):
        pool = "KV not known"
        if kv is not None:
            mib = kv.bytes_per_model[i] / 2**20
            pool = f"KV {mib:.0f} MiB = {kv.sequences} × {kv.context} tokens"
        lines.append(
            f"model {i} {model.name}: {model.engine_name}, {pool}, "
            f"batch threshold {model.threshold}"
        )
    if kv is not None:
        lines += gpu_lines(memory, kv.tokens)
    lines.append(_batching(config))
    if config.in_processes:
        lines.append("every model in a process of its own")
    if max_active is not None:
        lines.append(f"up to {max_active} requests at once, {config.max_queue} waiting")
    return lines


def _batching(config: GroupConfig) -> str:
    if config.execution == "lockstep":
        return "models step in lockstep"
    return {
        "auto": "delayed batching tuned while serving, from these thresholds",
        "fixed": "delayed batching with these thresholds",
        "off": "no delayed batching",
    }[config.delayed_batching]
