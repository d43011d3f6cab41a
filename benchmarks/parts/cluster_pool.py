"""The prompts of `benchmarks.cluster`: the public pool where its data is, else our own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rbalance.demo import DEMO_PROMPTS
from rbalance.labels.records import read_records
from rbalance.predict.sentence_embedder import SentenceEmbedder
from rbalance.simulator.make_pool import make_pool
from rbalance.simulator.prompt_pool import PromptPool

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data" / "mmlu_pro.jsonl.gz"
KEPT = ROOT / "build" / "benchmarks"
FOUR_TIERS = (
    "Phi-3-mini-4k-instruct",
    "Meta-Llama-3_1-8B-Instruct",
    "Mixtral-8x7B-Instruct-v0.1",
    "Meta-Llama-3_1-70B-Instruct",
)
DEMO_TIERS = ("demo-3b", "demo-7b", "demo-14b", "demo-72b")
SHARE = 0.4


@dataclass(frozen=True)
class NamedPool:
    """name: what the output says it was."""

    name: str
    pool: PromptPool


def open_pool(data: Path | None, smoke: bool) -> NamedPool:
    """Embedding the public set takes minutes of CPU time, so its pool is kept in build/."""
    if data is None and (smoke or not SHARED.exists()):
        pool = make_pool(read_records(DEMO_PROMPTS), SentenceEmbedder(), DEMO_TIERS, SHARE)
        return NamedPool("the project's own made-up set: no figure of a real model", pool)
    path = data or SHARED
    key = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    kept = KEPT / f"cluster-{key}.npz"
    if not kept.exists():
        print(f"embedding the prompts of {path.name}, once", flush=True)
        KEPT.mkdir(parents=True, exist_ok=True)
        make_pool(read_records(path), SentenceEmbedder(), FOUR_TIERS, SHARE).save(kept)
    return NamedPool(f"{path.name}, four tiers", PromptPool.load(kept))
