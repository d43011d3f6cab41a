"""One memory budget for the KV of all models of a group ("automatic KV-cache allocation")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trsched.errors import ConfigError

MAX_SEQUENCES = 256
"""Most sequences of one llama.cpp context."""


@dataclass(frozen=True, slots=True)
class KvPlan:
    """Equal shares in tokens, not bytes: each pool holds `sequences` × `context` tokens."""

    context: int
    sequences: int
    bytes_per_model: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Tokens each pool holds."""
        return self.sequences * self.context


def split_kv_budget(
    budget: int, bytes_per_token: Sequence[int], context: int, max_active: int | None
) -> KvPlan:
    """Divide `budget` bytes so that all pools hold the same number of tokens.

    No more sequences than `max_active` requests are made. Raises ConfigError when not even one
    request of `context` tokens fits.
    """
    per_token = sum(bytes_per_token)
    sequences = min(budget // (per_token * context), MAX_SEQUENCES, max_active or MAX_SEQUENCES)
    if sequences < 1:
        raise ConfigError(
            "kv_memory",
            f"{budget / 2**20:.1f} MiB cannot hold one request of {context} tokens: "
            f"that takes {per_token * context / 2**20:.1f} MiB over all models",
        )
    tokens = sequences * context
    return KvPlan(context, sequences, tuple(tokens * b for b in bytes_per_token))
