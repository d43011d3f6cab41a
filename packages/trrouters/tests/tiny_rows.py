"""Collected rows whose labels are a plain function of the hidden state."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from tests.support.trrouters.tiny_checkpoints import HIDDEN, PAIR, TOP_K
from trrouters.training.rows import COLLECTED, Rows


def tiny_rows(count: int = 700, prompts: int = 30, seed: int = 0, *, cut_off: float = 0.0) -> Rows:
    """About a fifth of the small model's tokens differ, and all of these are divergent.

    A share `cut_off` of the rows has no label. The large model is nearly sure of its token, the
    small one only where the two agree; its entropy tells a little, its logits and tokens nothing.
    """
    rng = np.random.default_rng(seed)
    hidden = rng.normal(0, 1, (count, HIDDEN))
    divergent = hidden[:, 0] + hidden[:, 1] - 0.5 * hidden[:, 2] > 1.3
    labels = np.where(rng.random(count) < cut_off, -1, divergent)
    tokens = rng.integers(0, 50, count)
    return Rows(
        hidden_states=torch.from_numpy(hidden).half(),
        token_embeddings=torch.from_numpy(rng.normal(0, 1, (count, HIDDEN))).half(),
        top_logits=torch.from_numpy(-np.sort(-rng.normal(0, 2, (count, TOP_K)))).half(),
        small_tokens=torch.from_numpy(tokens + divergent).int(),
        tokens=torch.from_numpy(tokens).int(),
        small_logprob=torch.from_numpy(np.where(divergent, -3.0, -0.1)).float(),
        large_logprob=torch.full((count,), -0.05),
        entropy=torch.from_numpy(0.7 * rng.random(count) + 0.3 * divergent).float(),
        divergent=torch.from_numpy(labels).to(torch.int8),
        prompts=torch.from_numpy(np.sort(rng.integers(0, prompts, count))).int(),
    )


def write_rows(directory: Path, rows: Rows) -> Path:
    """A directory as `trrouters collect` leaves it, for the tiny checkpoints' pair."""
    directory.mkdir(exist_ok=True)
    half = torch.arange(len(rows)) < len(rows) // 2
    rows.where(half).save(directory / "rows-00000.safetensors")
    rows.where(~half).save(directory / "rows-00001.safetensors")
    collected = {
        "pair": [{"name": m.name, "fingerprint": m.fingerprint} for m in PAIR],
        "prompts": {"count": len(set(rows.prompts.tolist())), "sha256": "0"},
        "max_tokens": 40,
        "horizon": 8,
    }
    (directory / COLLECTED).write_text(json.dumps(collected))
    return directory
