"""The pairs of models that systems are compared on, and the algorithms that route between them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from benchmarks.load.workload import ChatFrame, Encode, byte_encode
from benchmarks.report.cost_model import PairCosts
from benchmarks.report.names import Engine
from benchmarks.runs.random_checkpoint import random_checkpoint
from benchmarks.systems.path import Flow
from trsched.plan.check import check_group
from trsched.plan.config import GroupConfig
from trserve.server.deployment import load_deployment
from trserve.server.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class RoutingAlgorithm:
    """How the models of a pair take turns.

    router: as in a group's file.
    n_probs: likeliest tokens that a client must see to decide.
    """

    router: Mapping[str, Any]
    flow: Flow
    n_probs: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Pair:
    """Two models, and what routes between them.

    models: as in a group's file, small one first.
    costs: None where steps were not profiled.
    """

    engine: Engine
    models: Sequence[Mapping[str, Any]]
    algorithms: Mapping[str, RoutingAlgorithm]
    overlap: bool
    encode: Encode
    frame: ChatFrame | None = None
    costs: PairCosts | None = None

    def group(self, algorithm: str, context: int, most: int, **settings: Any) -> dict[str, Any]:
        """The configuration of a group; settings: more of its fields."""
        return {
            "name": f"{self.engine}-pair",
            "models": [dict(model) for model in self.models],
            "router": dict(self.algorithms[algorithm].router),
            "context": context,
            "kv_memory": "16GiB",  # no more is taken than `most` requests can fill
            "max_active": most,
            "overlap": self.overlap,
            **settings,
        }


SMALL_MS, LARGE_MS = 6.0, 27.9
"""The article's step latencies (Qwen3-0.6B on one A100, 32B on two), whatever the batch size."""


def _bernoulli(**settings: float) -> dict[str, Any]:
    return {"name": "bernoulli", "settings": settings}


def profile_pair() -> Pair:
    """Latency profiles, and draws in place of routers.

    p of R2R is the article's. Those of CITER and R-Stitch are such that the Markov model's optimum
    at concurrency 4 is the throughput that the article's table has for them; Co-LLM's can't be had
    that way (its 76 tok/s are less than these latencies give even at p = 1), half is what our own
    calibrated heads hand over. ME's weights are equal by definition. Tokens that a step ingests
    beyond one cost nothing, in all systems: on a memory-bound GPU they nearly do not.
    """
    models = [
        {"engine": "profile", "name": name, "step_ms": [ms]}
        for name, ms in (("small", SMALL_MS), ("large", LARGE_MS))
    ]
    return Pair(
        engine="profile",
        models=models,
        algorithms={
            "r2r": RoutingAlgorithm(_bernoulli(p=0.35), "one_token_visits"),
            "citer": RoutingAlgorithm(_bernoulli(p=0.6), "one_token_visits"),
            "co_llm": RoutingAlgorithm(_bernoulli(p=0.5), "one_token_visits"),
            "r_stitch": RoutingAlgorithm(_bernoulli(p=0.55, q=0.3), "r_stitch"),
            "me": RoutingAlgorithm({"name": "me"}, "me"),
        },
        overlap=True,
        encode=byte_encode,
        costs=PairCosts(small_ms=[SMALL_MS], large_ms=[LARGE_MS]),
    )


def sglang_pair(folder: Path) -> Pair:
    """Two models of random weights on SGLang, and draws in place of routers, as on the profiles.

    folder: gets the models' configurations; weights are made up when a server starts.
    """
    cuda = torch.cuda.is_available()
    models = [
        {
            "engine": "sglang",
            "name": name,
            "path": str(random_checkpoint(folder / name, layers=layers, hidden_size=hidden)),
            "load_format": "dummy",
            "dtype": "bfloat16" if cuda else "float32",
        }
        for name, layers, hidden in (("small", 2, 128), ("large", 8, 512))
    ]
    return Pair(
        engine="sglang",
        models=models,
        algorithms=profile_pair().algorithms,
        overlap=cuda,
        encode=byte_encode,
    )


_TOP_LOGITS = (100, 0)  # R2R's router reads the hundred likeliest, R-Stitch's entropy nearly those

_PRESETS: dict[str, tuple[str, Flow, tuple[int, int]]] = {
    "r2r": ("smol-r2r", "one_token_visits", _TOP_LOGITS),
    "citer": ("smol-citer", "one_token_visits", (0, 0)),
    "co_llm": ("smol-co-llm", "one_token_visits", (0, 0)),
    "r_stitch": ("smol-rstitch", "r_stitch", (100, 100)),
    "me": ("smol-me", "me", (0, 0)),
}


def real_pair() -> Pair:
    """The demo pair on llama.cpp, the shipped routers. Raises ConfigError without its files."""
    groups = {name: load_deployment(preset=preset).group for name, (preset, *_) in _PRESETS.items()}
    tokenizer = Tokenizer(check_group(groups["r2r"]).vocabularies[0])
    return Pair(
        engine="real",
        models=_models(groups["r2r"]),
        algorithms={
            name: RoutingAlgorithm(msgspec.to_builtins(groups[name].router), flow, probs)
            for name, (_, flow, probs) in _PRESETS.items()
        },
        overlap=False,
        encode=lambda text: tokenizer.vocabulary.encode(text, special=False),
        frame=ChatFrame.of(tokenizer),
    )


def real_costs(batches: Sequence[int]) -> PairCosts:
    """The demo pair's step times, measured now by `trserve profile`."""
    command = [str(Path(sys.executable).with_name("trserve")), "profile", "--json"]
    command += ["--preset", _PRESETS["r2r"][0], "--batches", ",".join(map(str, batches))]
    profile = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    small, large = profile["models"]
    return PairCosts(
        small_ms=small["step_ms"],
        large_ms=large["step_ms"],
        ingest_ms=large["extend_token_ms"],
        shared=True,
    )


def _models(group: GroupConfig) -> list[dict[str, Any]]:
    """With what is said about them only: a default may be none for whoever reads the dict."""
    return [
        {name: value for name, value in msgspec.to_builtins(model).items() if value is not None}
        for model in group.models
    ]
