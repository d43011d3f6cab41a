"""Concurrent equals sequential on SGLang: five routers, greedy and seeded, against transformers.

Both compute in float32 and round differently. A request whose answer hangs on less than ROUNDING
says nothing, and others are asked in its place.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace as changed

from tests.sglang_groups.tiny_group import CONTEXT, tiny_config
from tests.support.oracle import sequential
from tests.support.oracle.concurrent_clients import assert_served
from tests.support.oracle.demo_requests import GREEDY, SAMPLED
from tests.support.oracle.own_routing import ANY
from tests.support.oracle.reference_routers import ReferenceRouter
from tests.support.oracle.sequential import Answer, Decide
from tests.support.trrouters.tiny_checkpoints import saved, tiny_tensors
from trrouters import ModelIdentity
from trsched.group import Group
from trsched.request import GenerateRequest, SamplingParams

if TYPE_CHECKING:
    from tests.support.oracle.hf_model import HfModel

pytestmark = pytest.mark.slow

ROUNDING = 5e-5
"""Of logits (1e-5 at most was seen in 1,536 rows) and of routers' scores (2e-6)."""
REQUESTS = 18
HIDDEN, VOCAB = 64, 512
PAIR = (ModelIdentity("small"), ModelIdentity("large"))
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "r2r": {
        "hidden_size": HIDDEN,
        "top_k": 20,
        "widths": [32, 16],
        "expansion": 2,
        "normalize": True,
    },
    "citer": {"hidden_size": HIDDEN, "widths": [32]},
    "co_llm": {"hidden_size": HIDDEN},
}


@dataclass(frozen=True)
class Case:
    """more: of the group; see `tiny_config`. kinds: what requests bring of their own, by turns."""

    router: str
    settings: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    kinds: Sequence[dict[str, Any]] = ({},)


SCARCE = {"sequences": 5}
DELAYED = {"thresholds": (2, 3)}
CASES = [
    Case("bernoulli", {"p": 0.3}, SCARCE | DELAYED),
    Case("r2r", {"threshold": 0.5}, {"chunk": 16}),
    Case("citer", {"threshold": 0.5}, DELAYED),
    Case("co_llm", {"threshold": 0.5, "tokens_per_call": 3}, SCARCE),
    Case("r_stitch", {"tau": 0.85}, {"overlap": False}),
    Case("me", {"weights": [1.0, 2.0]}, {"tp": 2}),
    Case("bernoulli", {"p": 0.3}, SCARCE | DELAYED, ANY),
]


@pytest.fixture(scope="module")
def solo(pair: tuple[Path, Path]) -> list[HfModel]:
    """Each model alone."""
    from tests.support.oracle.hf_model import HfModel
    from tests.support.sglang.tiny_models import Reference

    return [HfModel(Reference(path), index) for index, path in enumerate(pair)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.router)
def test_concurrent_equals_sequential(
    case: Case, pair: tuple[Path, Path], solo: list[HfModel], tmp_path: Path
) -> None:
    settings = dict(case.settings)
    if case.router in ARCHITECTURES:
        architecture = ARCHITECTURES[case.router]
        tensors = tiny_tensors(case.router, architecture=architecture)
        settings["checkpoint"] = saved(
            tmp_path, case.router, architecture=architecture, tensors=tensors, pair=PAIR
        )
    asked = list(islice(clear_cases(Sequential(case, solo, tmp_path)), REQUESTS))
    requests = [request for request, _ in asked]
    expected = [answer for _, answer in asked]
    assert {model for answer in expected for model in answer.models} == {0, 1}
    group = Group.open(tiny_config(pair, case.router, settings, **case.more))
    assert_served(group, requests, expected)
    reclaims = sum(subserver.kv_reclaims for subserver in group.status().subservers)
    assert (reclaims > 0) == ("sequences" in case.more)


class Sequential:
    """The case as a plain program over both models in transformers."""

    def __init__(self, case: Case, solo: list[HfModel], checkpoint: Path) -> None:
        self.case = case
        self._models = solo
        self._reference = (
            ReferenceRouter(checkpoint, case.settings["threshold"])
            if case.router in ARCHITECTURES
            else None
        )

    def clear_answer(self, request: GenerateRequest) -> Answer | None:
        """None for a request whose answer hangs on rounding."""
        for model in self._models:
            model.closest = math.inf
        if self._reference is not None:
            self._reference.closest = math.inf
        answers = [
            sequential.generate(
                self._models,
                *plan,
                request.prompt_ids,
                request.sampling,
                request.max_tokens,
                request.stop_token_ids,
            )
            for plan in self._plans(request)
        ]
        closest = min(model.closest for model in self._models)
        if self._reference is not None:
            closest = min(closest, self._reference.closest)
        same = all(answer == answers[0] for answer in answers)
        return answers[0] if same and closest > ROUNDING else None

    def _plans(self, request: GenerateRequest) -> list[tuple[int, Decide]]:
        """The router; of R-Stitch, which says not how close it came, also with other thresholds."""
        case, seed = self.case, request.sampling.seed
        if request.only is not None:
            return [sequential.fixed(request.only)]
        match case.router:
            case "bernoulli":
                prompt = len(request.prompt_ids)
                p = case.settings["p"] if request.threshold is None else request.threshold
                return [sequential.bernoulli(p, seed, prompt)]
            case "me":
                return [sequential.mixture(case.settings["weights"], seed)]
            case "r_stitch":
                tau = case.settings["tau"]
                return [sequential.r_stitch(tau + x) for x in (0, -ROUNDING, ROUNDING)]
        reference, small = self._reference, self._models[0]
        assert reference is not None
        return [sequential.one_token_visits(lambda: reference.hands_over(small.sight))]


def clear_cases(program: Sequential) -> Iterator[tuple[GenerateRequest, Answer]]:
    """Requests with answers that hang on no rounding; at least half of those tried."""
    skipped = 0
    kinds = cycle(program.case.kinds)
    for number, asked in enumerate(make_requests()):
        request = changed(asked, **next(kinds))
        answer = program.clear_answer(request)
        if answer is not None:
            yield request, answer
            continue
        skipped += 1
        assert 2 * skipped <= number + 8, "too many requests hang on rounding"


def make_requests() -> Iterator[GenerateRequest]:
    """Without end: greedy and sampled, prompts of all lengths, many of which begin alike."""
    rng = random.Random(5)
    beginning = [rng.randrange(11, VOCAB) for _ in range(24)]
    number = 0
    while True:
        base = GREEDY if number % 2 else SAMPLED[number // 2 % len(SAMPLED)]
        sampling = SamplingParams(base.temperature, base.top_p, base.top_k, rng.getrandbits(64))
        own = [rng.randrange(11, VOCAB) for _ in range(rng.randrange(1, 60))]
        max_tokens = rng.randrange(8, 25)
        prompt = beginning + own if number % 3 else own
        yield GenerateRequest(
            request_id=str(number),
            prompt_ids=prompt[: CONTEXT - max_tokens],
            max_tokens=max_tokens,
            sampling=sampling,
            stop_token_ids=frozenset(range(1, 11)),
        )
        number += 1
