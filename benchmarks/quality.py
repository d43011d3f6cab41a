"""What each algorithm's choice of tokens is worth: against random routing at the same rate.

On prompts that no router saw in training (the same kinds of question, nearly always about other
subjects), the demo pair answers greedily with every algorithm at several thresholds. These are set
for a wanted share of hand-overs by the scores along the small model's own answers to the same
prompts, which says where on a curve the points lie, not how high it is. Each answer is then read by
the large model: its log-likelihood a token, and the share of tokens that the large model would have
chosen itself. (Both also reward text that repeats itself.) Beside these:
the small model alone, the large one alone, and a coin (`bernoulli`) at several rates.

`auc_<algo>` is the area under (gain in log-likelihood over the small model alone) by (share of
tokens that the large model made), divided by the coin's area; 1 is no better than random, and a
router that had all of the gain at once would reach 2 if the coin's curve were a straight line. In
brackets: 95 % of a bootstrap over prompts.
`roc_auc_<algo>`: divergent against other tokens along the large model's answers to these prompts.
ME draws its models at random by definition: its curve shows the mixture, not a router.

Run ``python -m benchmarks.quality`` (a quarter of an hour) or with ``--smoke``; ends with one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.parts.curves import CurvePoint, area, bootstrap_weights
from benchmarks.parts.large_model_reader import read
from benchmarks.parts.quality_plot import plot
from trrouters.checkpoint import load_checkpoint
from trrouters.training.collect import CollectSettings, collect
from trrouters.training.evaluate import evaluate
from trrouters.training.pair import open_pair
from trrouters.training.prompts import HELD_OUT, TRAIN, read_prompts
from trrouters.training.rows import load_rows
from trsched.group import Group
from trsched.plan.config import GroupConfig, RouterConfig
from trsched.request import GenerateRequest, SamplingParams
from trserve.server.deployment import load_deployment
from trserve.server.text.tokenizer import Tokenizer

ALGORITHMS = ("r2r", "citer", "co_llm", "r_stitch")
SETTING = {"r2r": "threshold", "citer": "threshold", "co_llm": "threshold", "r_stitch": "tau"}
PRESET = {name: f"smol-{name.replace('_', '-')}" for name in ALGORITHMS} | {
    "r_stitch": "smol-rstitch"
}
CONTEXT = 512

Answers = list[tuple[list[int], list[int]]]
"""For each prompt its tokens and the model of each."""


def configuration(preset: str, router: RouterConfig | None = None) -> GroupConfig:
    group = load_deployment(preset=preset, flags={"context": CONTEXT}).group
    return msgspec.structs.replace(group, router=router or group.router)


def opened(config: GroupConfig) -> AbstractContextManager[Group]:
    return closing(Group.open(config))


class AnswerReader:
    """The prompts, and the large model as reader."""

    def __init__(self, prompts: Sequence[str], tokens: int) -> None:
        self.tokens = tokens
        with opened(configuration("smol-slm")) as group:
            tokenizer = Tokenizer(group.vocabulary)
            self.stop_ids = group.vocabulary.stop_ids
            chats = [[{"role": "user", "content": text}] for text in prompts]
            self.prompts = [tokenizer.encode_chat_now(chat) for chat in chats]
            self.small = self.answers(group)
        with opened(configuration("smol-llm")) as group:
            self.large = self.answers(group)
        self._pair = open_pair("smol-llm", sequences=16, context=CONTEXT)

    def answers(self, group: Group) -> Answers:
        """Every prompt's answer, all submitted at once."""
        streams = [
            group.submit(
                GenerateRequest(
                    request_id=str(i),
                    prompt_ids=prompt,
                    max_tokens=self.tokens,
                    sampling=SamplingParams(temperature=0.0, seed=i),
                    stop_token_ids=self.stop_ids,
                )
            )
            for i, prompt in enumerate(self.prompts)
        ]
        results = []
        for stream in streams:
            tokens, final = stream.result()
            if final.reason not in ("stop", "length"):
                raise SystemExit(f"a request ended with {final.reason}: {final.error}")
            results.append(([t.token_id for t in tokens], [t.model for t in tokens]))
        return results

    def point(self, label: str, answers: Answers) -> CurvePoint:
        """The answers, read by the large model."""
        print(f"  reading {label}", file=sys.stderr)
        readings = read(self._pair, self.prompts, [tokens for tokens, _ in answers])
        rows = [
            (
                len(tokens),
                sum(model > 0 for model in models),
                reading.log_likelihood,
                reading.argmax_tokens,
                sum(1 for _ in _common_prefix(tokens, greedy)) / max(len(tokens), len(greedy)),
            )
            for (tokens, models), (greedy, _), reading in zip(
                answers, self.large, readings, strict=True
            )
        ]
        return CurvePoint(label, *np.array(rows, dtype=np.float64).T)

    def close(self) -> None:
        self._pair.close()


def _common_prefix(left: list[int], right: list[int]) -> Iterator[int]:
    for a, b in zip(left, right, strict=False):
        if a != b:
            return
        yield a


def record_scores(group: Group, answer: Callable[[], object]) -> np.ndarray[Any, Any]:
    """Scores of the entry's router at every token of the small model while `answer` runs."""
    router: Any = group.plan.routers[0]
    seen: list[float] = []
    plain = router.scores

    def scores(result: Any) -> Any:
        found = plain(result)
        seen.extend(found.tolist())
        return found

    router.scores = scores
    answer()
    del router.scores
    return np.array(seen)


def sweep(bench: AnswerReader, algorithm: str, rates: Sequence[float]) -> list[CurvePoint]:
    """Answers at thresholds that hand over `rates` of the tokens of the small model's own text."""
    points = []
    name = SETTING[algorithm]
    trusts_small = algorithm == "citer"
    with opened(configuration(PRESET[algorithm])) as group:
        routers: list[Any] = list(group.plan.routers)
        never = -1.0 if trusts_small else 2.0
        for router in routers:
            setattr(router, name, never)
        scores = record_scores(group, lambda: bench.answers(group))
        for rate in rates:
            threshold = float(np.quantile(scores, rate if trusts_small else 1 - rate))
            for router in routers:
                setattr(router, name, threshold)
            answers = bench.answers(group)
            points.append(bench.point(f"{algorithm} {name}={threshold:.4f}", answers))
    return points


def coin(bench: AnswerReader, rates: Sequence[float]) -> list[CurvePoint]:
    with opened(configuration("smol-slm", RouterConfig("bernoulli", {"p": 0.0}))) as group:
        router: Any = group.plan.routers[0]
        points = []
        for rate in rates:
            router.p = rate
            points.append(bench.point(f"random p={rate}", bench.answers(group)))
    return points


def mixture(bench: AnswerReader, rates: Sequence[float]) -> list[CurvePoint]:
    points = []
    for rate in rates:
        router = RouterConfig("me", {"weights": [1 - rate, rate]})
        with opened(configuration("smol-me", router)) as group:
            points.append(bench.point(f"me weight={rate}", bench.answers(group)))
    return points


def ranking(prompts: Sequence[str], tokens: int) -> dict[str, float]:
    """ROC AUC of every score for divergent tokens along the large model's answers."""
    with tempfile.TemporaryDirectory() as folder:
        with open_pair("smol-slm", sequences=16, context=CONTEXT) as pair:
            collect(pair, prompts, Path(folder), CollectSettings(max_tokens=tokens))
        rows = load_rows(Path(folder))
    trained = [
        load_checkpoint(configuration(PRESET[name]).router.settings["checkpoint"], name)
        for name in ALGORITHMS
        if name != "r_stitch"
    ]
    report = list(evaluate(trained, rows).values())
    return {f"roc_auc_{name}": row["roc_auc"] for name, row in zip(ALGORITHMS, report, strict=True)}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small sizes, about a minute")
    parser.add_argument("--plot", type=Path, default=Path("build/quality.png"), help="PNG to write")
    args = parser.parse_args()
    count, tokens = (8, 12) if args.smoke else (48, 48)
    rates = (0.3, 0.7) if args.smoke else (0.1, 0.25, 0.4, 0.6, 0.8)
    prompts = read_prompts(HELD_OUT, count)
    if seen := set(prompts) & set(read_prompts(TRAIN)):
        raise SystemExit(f"prompts that the routers were trained on: {sorted(seen)}")
    facts = {"prompts": count, "tokens": tokens, "held_out": HELD_OUT, "trained_on": TRAIN}
    print(json.dumps({**facts, "config": msgspec.to_builtins(configuration("smol-r2r"))}))

    bench = AnswerReader(prompts, tokens)
    small, large = bench.point("small alone", bench.small), bench.point("large alone", bench.large)
    curves = {"random": coin(bench, rates)}
    for algorithm in ALGORITHMS:
        print(f"{algorithm}", file=sys.stderr)
        curves[algorithm] = sweep(bench, algorithm, rates)
    curves["me"] = mixture(bench, rates)
    bench.close()

    print(f"{'':34}{'LLM share':>10}{'log-lik.':>10}{'argmax':>8}{'greedy prefix':>15}")
    for point in (small, large, *(point for points in curves.values() for point in points)):
        print(
            f"{point.label:34}{point.share:10.3f}{point.mean_log_likelihood:10.3f}"
            f"{point.argmax_share:8.3f}{point.greedy_prefix.mean():15.3f}"
        )
    weights = bootstrap_weights(count, draws=2000)
    areas = {name: area(points, small, large, weights) for name, points in curves.items()}
    result: dict[str, float] = {}
    print(f"\n{'area against random':34}{'ratio':>10}   95 %")
    for algorithm in (*ALGORITHMS, "me"):
        ratios = areas[algorithm] / areas["random"]
        low, high = np.quantile(ratios[1:], (0.025, 0.975))
        result[f"auc_{algorithm}"] = float(ratios[0])
        print(f"{algorithm:34}{ratios[0]:10.3f}   [{low:.3f}, {high:.3f}]")
    result |= ranking(prompts, tokens)
    for name in ALGORITHMS:
        print(f"ROC AUC for divergent tokens, {name:10}{result[f'roc_auc_{name}']:7.3f}")
    title = f"demo pair, {count} prompts not seen in training, greedy, {tokens} tokens"
    plot(args.plot, curves, small, large, title)
    print(f"picture: {args.plot}")
    rounded = {key: round(value, 4) for key, value in result.items()}
    print(json.dumps({"benchmark": "quality", **facts, **rounded}))


if __name__ == "__main__":
    main()
