"""Groups of profile or gate engines for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.trsched.gate_engine import GateEngine
from trsched.group import Group
from trsched.hosts.thread_host import ThreadHost
from trsched.plan.check import check_group
from trsched.plan.config import GroupConfig, ProfileModel, group_config
from trsched.request import GenerateRequest, SamplingParams
from trsched.wire.patient_push import PATIENCE_S


def profile_config(
    router: str,
    settings: dict[str, Any] | None = None,
    *,
    models: int = 2,
    thresholds: Sequence[int] | None = None,
    eos_rate: float = 0.0,
    step_ms: float = 0.01,
    **group: Any,
) -> GroupConfig:
    """A group of profile engines."""
    thresholds = thresholds or [1] * models
    return group_config(
        {
            "name": "test",
            "models": [
                {
                    "engine": "profile",
                    "name": f"m{i}",
                    "step_ms": [step_ms],
                    "eos_rate": eos_rate,
                    "threshold": thresholds[i],
                }
                for i in range(models)
            ],
            "router": {"name": router, "settings": settings or {}},
            "context": 256,
            "kv_memory": "64MiB",
            "max_active": 8,
            "overlap": True,
            "delayed_batching": "fixed",
            **group,
        }
    )


def gate_group(
    config: GroupConfig, sequences: int | None = None, *, patience_s: float = PATIENCE_S
) -> tuple[Group, list[GateEngine]]:
    """A started group of gate engines, all open."""
    plan = check_group(config)
    engines = []
    for i, model in enumerate(config.models):
        assert isinstance(model, ProfileModel)
        engines.append(GateEngine(model, i, sequences or plan.kv.sequences, plan.kv.context))
    return Group(plan, ThreadHost(plan, engines), patience_s=patience_s), engines


def request(
    seed: int = 0,
    max_tokens: int = 8,
    *,
    prompt: bytes = b"hello",
    timeout_s: float | None = None,
    request_id: str = "test",
    threshold: float | None = None,
    only: int | None = None,
) -> GenerateRequest:
    """A request on the byte vocabulary."""
    return GenerateRequest(
        request_id=request_id,
        prompt_ids=list(prompt),
        max_tokens=max_tokens,
        sampling=SamplingParams(seed=seed),
        stop_token_ids=frozenset({256}),
        timeout_s=timeout_s,
        threshold=threshold,
        only=only,
    )
