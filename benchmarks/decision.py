"""What one decision costs: a batch of 1, 8 or 32 requests for 13 instances, part by part.

The article's cluster (RouteBalance, arXiv 2606.17949: 3 x 3B, 5 x 7B, 3 x 14B, 2 x 72B) and its
14,919 training prompts. A decision embeds the batch, looks up its neighbours, asks the TPOT heads
of all instances and assigns; `serial` does all that for one request after another, as the
article's artefact does. Prompts are the demo set's (`short`) and five of them joined (`long`). The
index holds the demo prompts' vectors moved a little at random, and the heads are trained on made-up
rows: what they answer is of no interest here, and it does not change what they cost.

Run ``python -m benchmarks.decision`` or with ``--smoke``. Ends with one JSON object: milliseconds
are medians, `decision_ms_8`, `per_request_ms_32` and `speedup_vs_serial_32` are for short prompts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import trcore
from rbalance.demo import DEMO_PROMPTS
from rbalance.demo.generate import MODELS
from rbalance.labels.records import read_records
from rbalance.labels.training_set import TrainingSet
from rbalance.predict.knn import KnnFit, KnnPredictor, fit_knn
from rbalance.predict.sentence_embedder import SentenceEmbedder
from rbalance.tpot.features import STATE_COLUMN, unknown_state
from rbalance.tpot.heads import TpotHeads, fit_heads
from rbalance.tpot.model import TpotQuery
from rbalance.tpot.record import TpotRecord
from rbalance.tpot.xgboost_tpot import XgboostTpot

INSTANCES = (3, 5, 3, 2)  # of each of MODELS
PRICES = (0.06, 0.07, 0.15, 0.39)
STATIC_TPOT_S = (0.0123, 0.0206, 0.0184, 0.0474)
TRAINING_PROMPTS = 14_919
BATCHES = (1, 8, 32)
PARTS = ("embed", "knn", "tpot", "scoring")
JOINED = 5
WEIGHTS = (1 / 3, 1 / 3, 1 / 3)
TIERS = [name for name, count in zip(MODELS, INSTANCES, strict=True) for _ in range(count)]
OF_MODEL = np.array([MODELS.index(tier) for tier in TIERS], np.int32)


def enlarged(fit: KnnFit, prompts: int) -> KnnFit:
    """The same fit with so many training prompts: vectors moved at random, labels repeated."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(fit.vectors), size=prompts)
    vectors = fit.vectors[rows] + 0.02 * rng.normal(size=(prompts, fit.vectors.shape[1]))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return KnnFit(
        prior=fit.prior,
        vectors=vectors.astype(np.float16),
        quality=fit.quality[rows],
        length=fit.length[rows],
        digests=fit.digests[rows],
        k=10,
        prior_weight=fit.prior_weight,
        embedder=fit.embedder,
        fingerprint=fit.fingerprint,
    )


def busy_state(instances: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Some load on each instance; every feature known."""
    state = unknown_state(instances)
    state[:] = rng.random(state.shape) * 10
    state[:, STATE_COLUMN["slots"]] = 32
    return state


def heads() -> TpotHeads:
    """A head for each model, of 2,000 rows each."""
    rng = np.random.default_rng(1)
    records = []
    for model, tpot in zip(MODELS, STATIC_TPOT_S, strict=True):
        for state in busy_state(2000, rng):
            slower = 1 + 0.05 * state[STATE_COLUMN["running"]]
            records.append(TpotRecord.of(model, state, 100, 200, tpot * slower))
    return fit_heads(records)


def cluster() -> trcore.InstanceView:
    """The 13 instances, open and idle."""
    view = trcore.InstanceView(len(TIERS))
    view.model[:] = OF_MODEL
    view.input_price[:] = view.output_price[:] = np.array(PRICES)[OF_MODEL]
    view.prior_tpot_s[:] = np.array(STATIC_TPOT_S)[OF_MODEL]
    view.slots[:] = 32
    view.context_window[:] = 32_768
    view.healthy[:] = True
    return view


@dataclass(frozen=True, slots=True)
class Decider:
    """All that a decision needs."""

    embedder: SentenceEmbedder
    predictor: KnnPredictor
    tpot: XgboostTpot
    view: trcore.InstanceView
    rules: trcore.AssignRules
    state: NDArray[np.float32]

    def decide(self, prompts: list[str]) -> list[float]:
        """One batch; the seconds of each of PARTS."""
        batch = len(prompts)
        chosen, tokens = np.empty(batch, np.int32), np.empty(batch, np.int32)
        read = np.array([len(prompt) // 4 for prompt in prompts], np.int32)
        most = np.full(batch, 4096, np.int32)
        times = [time.perf_counter()]
        vectors = self.embedder.embed(prompts)
        times.append(time.perf_counter())
        found = self.predictor.predict_vectors(vectors)
        times.append(time.perf_counter())
        expected = found.length.mean(axis=0)[OF_MODEL]
        query = TpotQuery(self.state, float(read.mean()), expected, times[-1])
        self.view.tpot_s[:] = self.tpot.seconds(query)
        times.append(time.perf_counter())
        done = trcore.assign(
            self.view,
            self.rules,
            WEIGHTS,
            read,
            most,
            found.quality,
            found.length,
            chosen,
            tokens,
            commit=False,
        )
        times.append(time.perf_counter())
        assert not done.unassigned
        return np.diff(times).tolist()


def measure(
    decider: Decider, prompts: list[str], batch: int, rounds: int
) -> tuple[list[float], float, float]:
    """Medians in seconds: of each part, of the decision, and of the same requests in series."""
    draw = random.Random(batch)
    parts, whole, serial = [], [], []
    for turn in range(rounds + 2):
        asked = draw.sample(prompts, batch)
        taken = decider.decide(asked)
        alone = sum(sum(decider.decide([prompt])) for prompt in asked)
        if turn >= 2:  # the others warm up
            parts.append(taken)
            whole.append(sum(taken))
            serial.append(alone)
    by_part = [statistics.median(column) for column in zip(*parts, strict=True)]
    return by_part, statistics.median(whole), statistics.median(serial)


def timed(embedder: SentenceEmbedder, prompts: list[str]) -> float:
    """Seconds to embed one batch."""
    began = time.perf_counter()
    embedder.embed(prompts)
    return time.perf_counter() - began


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="fewer rounds, under a minute")
    args = parser.parse_args()
    rounds = 5 if args.smoke else 25

    data = TrainingSet.from_records(read_records(DEMO_PROMPTS), MODELS)
    embedder = SentenceEmbedder()
    fit = enlarged(fit_knn(data, embedder), TRAINING_PROMPTS)
    decider = Decider(
        embedder,
        KnnPredictor(fit, embedder),
        XgboostTpot(heads(), TIERS),
        cluster(),
        trcore.AssignRules(fit.prior.quality.tolist(), fit.prior.length.tolist()),
        busy_state(len(TIERS), np.random.default_rng(2)),
    )
    draw = random.Random(0)
    sets = {
        "short": list(data.prompts),
        "long": [" ".join(draw.sample(data.prompts, JOINED)) for _ in range(200)],
    }
    facts: dict[str, Any] = {
        "rounds": rounds,
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "instances": len(TIERS),
        "training_prompts": TRAINING_PROMPTS,
        "embedder": embedder.name,
        "precision": "bf16",
        **{f"chars_{name}": statistics.mean(map(len, kind)) for name, kind in sets.items()},
    }
    print(json.dumps(facts))
    result: dict[str, float] = {}
    heading = "".join(f"{part + ' ms':>12}" for part in PARTS)
    print(f"{'prompts':8}{'batch':>6}{heading}{'decision ms':>13}{'a request':>11}{'serial':>9}")
    for name, prompts in sets.items():
        end = "" if name == "short" else f"_{name}"
        for batch in BATCHES:
            by_part, whole, serial = measure(decider, prompts, batch, rounds)
            result[f"decision_ms_{batch}{end}"] = whole * 1e3
            result[f"per_request_ms_{batch}{end}"] = whole * 1e3 / batch
            result[f"speedup_vs_serial_{batch}{end}"] = serial / whole
            for part, seconds in zip(PARTS, by_part, strict=True):
                result[f"{part}_ms_{batch}{end}"] = seconds * 1e3
            shown = "".join(f"{seconds * 1e3:12.3f}" for seconds in by_part)
            print(
                f"{name:8}{batch:6}{shown}{whole * 1e3:13.2f}{whole * 1e3 / batch:11.2f}"
                f"{serial / whole:8.2f}x"
            )
    # alone, batch after batch: weights stay in the cache, of which a decision needs more
    embedders = {"bf16": embedder, "fp32": SentenceEmbedder(precision="fp32")}
    for precision, each in embedders.items():
        for batch in BATCHES:
            samples = [timed(each, sets["short"][:batch]) for _ in range(rounds + 2)][2:]
            result[f"embed_alone_ms_{batch}_{precision}"] = statistics.median(samples) * 1e3
        shown = ", ".join(f"{result[f'embed_alone_ms_{n}_{precision}']:.2f}" for n in BATCHES)
        print(f"embedding alone, short prompts in {precision}, batches of {BATCHES}: {shown} ms")
    rounded = {key: round(value, 4) for key, value in result.items()}
    print(json.dumps({"benchmark": "decision", **facts, **rounded}))


if __name__ == "__main__":
    main()
