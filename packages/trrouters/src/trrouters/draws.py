"""Random numbers as a function of (request seed, position, stream), never of a generator's history.

Sampling, Bernoulli routing and the ensemble's draws thus depend on no batch, schedule or hand-off,
and a plain sequential program can replay them. Counter-based: Philox4x64 (Salmon et al., SC'11).
"""

from __future__ import annotations

import trcore

ROUTING_STREAM = 1 << 32
"""Streams below this belong to the models' token sampling (stream = model index)."""

RETURN_STREAM = ROUTING_STREAM + 1
"""For decisions of a model that others have handed to, at positions where these drew, too."""

_MASK = (1 << 64) - 1


def uniform(seed: int, position: int, stream: int) -> float:
    """A float64 in [0, 1): the draw of `stream` at token `position` of the request with `seed`."""
    return trcore.uniform(seed & _MASK, position, stream)
