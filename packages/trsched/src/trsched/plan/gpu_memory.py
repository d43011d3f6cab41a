"""How many tokens of KV fit on the GPUs beside the weights (`kv_memory: auto`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trsched.errors import ConfigError

RESERVE_BYTES = 6 << 30
"""Left to each rank for CUDA's context, CUDA graphs and a prefill chunk's activations.

A round figure for chunks of up to 2048 tokens and graphs of up to 256 requests, from SGLang's own
reserve (512 MiB, 1.5 MiB a token of a chunk, 2 MiB a request of a graph).
"""

_ASK_CUDA = """
import json, torch
gpus = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
print(json.dumps({gpu: torch.cuda.mem_get_info(gpu)[0] for gpu in gpus}))
"""


@dataclass(frozen=True, slots=True)
class RankMemory:
    """What one tensor-parallel rank of a model takes on its GPU."""

    model: str
    gpu: int
    weight_bytes: int
    kv_bytes_per_token: int


def free_gpu_memory() -> dict[int, int]:
    """Free bytes of each CUDA GPU that this process may use; empty where there is none.

    Asked in a process of its own: CUDA would keep hundreds of MiB on every GPU for this one.
    """
    asked = subprocess.run(
        [sys.executable, "-c", _ASK_CUDA], capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        return {}
    return {int(gpu): free for gpu, free in json.loads(asked.stdout).items()}


def tokens_that_fit(free: Mapping[int, int], ranks: Sequence[RankMemory]) -> int:
    """Tokens that all models can hold, equally many each, in what weights and reserve leave free.

    The fullest GPU decides. Raises ConfigError naming `kv_memory` for one that is not there or has
    nothing left.
    """
    tokens = []
    for gpu in sorted({rank.gpu for rank in ranks}):
        here = [rank for rank in ranks if rank.gpu == gpu]
        if gpu not in free:
            raise ConfigError("kv_memory", f"auto: there is no GPU {gpu} (found {len(free)})")
        taken = sum(rank.weight_bytes + RESERVE_BYTES for rank in here)
        if free[gpu] <= taken:
            names = " and ".join(rank.model for rank in here)
            raise ConfigError(
                "kv_memory",
                f"auto: GPU {gpu} has {free[gpu] / 2**30:.1f} GiB free, weights of {names} and "
                f"what they need beside KV take {taken / 2**30:.1f} GiB",
            )
        tokens.append((free[gpu] - taken) // sum(rank.kv_bytes_per_token for rank in here))
    return min(tokens)


def gpu_lines(ranks: Sequence[RankMemory], tokens: int) -> list[str]:
    """For people: what weights and KV of `tokens` tokens take on each GPU."""
    lines = []
    for gpu in sorted({rank.gpu for rank in ranks}):
        here = [rank for rank in ranks if rank.gpu == gpu]
        weights = sum(rank.weight_bytes for rank in here) / 2**30
        kv = tokens * sum(rank.kv_bytes_per_token for rank in here) / 2**30
        rest = len(here) * RESERVE_BYTES / 2**30
        names = " + ".join(rank.model for rank in here)
        lines.append(
            f"GPU {gpu}: {names}, weights {weights:.1f} GiB, KV {kv:.1f} GiB, {rest:.0f} GiB for "
            f"CUDA and activations: {weights + kv + rest:.1f} GiB"
        )
    return lines
