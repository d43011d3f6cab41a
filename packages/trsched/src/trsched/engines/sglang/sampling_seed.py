"""SGLang's per-request sampling seed, from the request's seed and the model's number."""

from __future__ import annotations

import hashlib


def sampling_seed(seed: int, model: int) -> int:
    """A signed 64-bit seed that differs from model to model.

    SGLang draws a token as the argmax of log-probability plus Gumbel noise, and takes the noise
    from a hash of (this seed, length of the sequence - 1, rank of the token by probability): no
    generator's history, so the batch and the schedule do not matter.
    """
    key = seed.to_bytes(8, "little") + model.to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little", signed=True)
