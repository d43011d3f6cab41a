"""The largest logits of every row, exactly, without searching the whole vocabulary."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def top_logits(logits: Tensor, count: int) -> Tensor:
    """The `count` largest of each row in falling order: `[batch, vocab]` → `[batch, count]`.

    The columns are dealt into groups. The largest lie within the `count` groups with the largest
    maxima (if one lay in another group, `count` larger values would lie outside of that), so only
    these are searched, in the same way. On a CPU that is quicker than `topk` of the whole row. A
    row's result doesn't depend on the other rows.
    """
    vocab = logits.shape[1]
    members = math.isqrt(vocab // count)  # balances the number of groups with the candidates left
    if members < 3:
        return logits.topk(count, dim=-1).values
    groups = vocab // members
    dealt = logits[:, : groups * members].reshape(-1, members, groups)
    best = dealt.amax(dim=1).topk(count, dim=-1, sorted=False).indices
    candidates = dealt.gather(2, best[:, None, :].expand(-1, members, -1)).flatten(1)
    rest = logits[:, groups * members :]
    return top_logits(torch.cat([candidates, rest], dim=1), count)
