"""Groups of the two tiny checkpoints, each model in processes of its own, as users run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trsched.plan.config import GroupConfig, group_config

CONTEXT = 128
KV_BYTES = CONTEXT * 4 * (2 * 2 * 2 * 16 + 3 * 2 * 2 * 16)
"""Of one sequence in both models: layers × (keys, values) × heads × size, in float32."""


def tiny_config(*args: Any, **kwargs: Any) -> GroupConfig:
    """See `tiny_settings`."""
    return group_config(tiny_settings(*args, **kwargs))


def tiny_settings(
    pair: tuple[Path, Path],
    router: str,
    settings: dict[str, Any],
    *,
    sequences: int = 16,
    thresholds: tuple[int, int] = (1, 1),
    tp: int = 1,
    chunk: int | None = None,
    **group: Any,
) -> dict[str, Any]:
    """At most 16 requests at once, of which `sequences` find room.

    tp: the large model's ranks. chunk: most tokens of prompts in a forward.
    """
    small, large = (
        {
            "engine": "sglang",
            "name": path.name,
            "path": str(path),
            "dtype": "float32",
            "threshold": threshold,
            "server_args": {} if chunk is None else {"chunked_prefill_size": chunk},
        }
        for path, threshold in zip(pair, thresholds, strict=True)
    )
    return {
        "name": "tiny",
        "models": [small, large | {"tp": tp}],
        "router": {"name": router, "settings": settings},
        "context": CONTEXT,
        "kv_memory": f"{sequences * KV_BYTES // 1024}KiB",
        "max_active": 16,
        "delayed_batching": "fixed",
        "overlap": True,
        **group,
    }
