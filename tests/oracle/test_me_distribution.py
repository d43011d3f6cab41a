"""The `me` router is exact: what is served has the mixture's distribution, not one like it.

A sample of a real group is tested against the distribution computed from the models' own logits,
and against what would be served if something were wrong, which the same test refuses. Seeds are
fixed, and tokens depend on no schedule: the p-values are the same in every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.oracle.concurrent_clients import answers
from tests.support.oracle.sequential import kept_tokens
from trsched.errors import ConfigError
from trsched.request import GenerateRequest, SamplingParams

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from tests.support.oracle.demo_models import PAIR, model_file, open_group, open_solo
from tests.support.oracle.llama_model import SoloLlama
from trsched.models.vocabulary import GgufVocabulary

pytestmark = [pytest.mark.models, pytest.mark.slow]

REQUESTS = 1000
RARE = 5 / REQUESTS
"""What is less likely is no cell of its own, as is usual: it would be expected below 5 times."""
BOOTSTRAP = 9999
ACCEPTED, REFUSED = 0.01, 0.001
REQUESTED = SamplingParams(temperature=1.3)
PROMPT = "I"

Shares = NDArray[np.float64]
Step = Callable[[Sequence[int]], Shares]
"""The probability that a model is drawn and makes a token, `[models, vocab]`, after some tokens."""
Made = tuple[int, int]
"""A model and the token it made."""
Cell = tuple[Made, Made]
"""The first two tokens of an answer."""


@dataclass(frozen=True)
class Ensemble:
    """own: each model's `sampling`; what it leaves open is the request's."""

    models: list[dict[str, Any]]
    weights: list[float]
    own: list[dict[str, float]]

    @property
    def samplings(self) -> list[SamplingParams]:
        return [msgspec.structs.replace(REQUESTED, **own) for own in self.own]


OWN_OF_PAIR: list[dict[str, float]] = [
    {"temperature": 0.7, "top_k": 3},
    {"top_p": 0.8, "top_k": 5},
]
TWO = Ensemble(PAIR, [2.0, 1.0], OWN_OF_PAIR)
THREE = Ensemble(
    [*PAIR, PAIR[0] | {"name": "slm-hot"}],  # the small model again, sampled in another way
    [3.0, 1.0, 2.0],
    [*OWN_OF_PAIR, {"temperature": 2.0, "top_k": 4}],
)


@dataclass(frozen=True)
class Served:
    """What a group of the ensemble served: how often each cell came.

    solo: its models alone. exact: what it should have served. cells: by that, all that aren't rare.
    """

    ensemble: Ensemble
    prompt: list[int]
    sample: Counter[Cell]
    solo: list[SoloLlama]
    exact: Step
    cells: list[Cell]


@pytest.fixture(scope="module", params=[TWO, THREE], ids=["two", "three"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    ensemble: Ensemble = request.param
    try:
        solo = open_solo(ensemble.models)
    except ConfigError as error:
        pytest.skip(str(error))
    prompt = GgufVocabulary(model_file(PAIR[0])).encode(PROMPT, special=False)
    exact = mixture(solo, ensemble.weights, ensemble.samplings)
    sample = serve(ensemble, prompt)
    yield Served(ensemble, prompt, sample, solo, exact, partition(exact, prompt))
    for model in solo:
        model.close()


def serve(ensemble: Ensemble, prompt: list[int]) -> Counter[Cell]:
    """Requests that differ in their seeds only, 16 at once."""
    # Quickest so: models step at the same time, on one thread each, in batches worth waiting for.
    models = [
        model | {"sampling": own, "threads": 1, "threshold": 8 if model["name"] == "llm" else 4}
        for model, own in zip(ensemble.models, ensemble.own, strict=True)
    ]
    requests = [
        GenerateRequest(str(seed), prompt, 2, msgspec.structs.replace(REQUESTED, seed=seed))
        for seed in range(REQUESTS)
    ]
    group = open_group("me", {"weights": ensemble.weights}, models, overlap=True)
    try:
        got = answers(group, requests, 16, {})
    finally:
        group.close()
    sample: Counter[Cell] = Counter()
    for answer, _ in got:
        first, second = zip(answer.models, answer.tokens, strict=True)
        sample[first, second] += 1
    return sample


def mixture(
    solo: Sequence[SoloLlama], weights: Sequence[float], samplings: Sequence[SamplingParams]
) -> Step:
    """Each model's own distribution, filtered as that model filters, times the model's share."""

    def step(tokens: Sequence[int]) -> Shares:
        rows = [
            filtered(model.propose(tokens, sampling)[1], sampling) * weight / sum(weights)
            for model, weight, sampling in zip(solo, weights, samplings, strict=True)
        ]
        return np.stack(rows)

    return step


def merged(solo: Sequence[SoloLlama], weights: Sequence[float], sampling: SamplingParams) -> Step:
    """What ME is not: the models' average distribution first, then its filter; made by nobody."""
    average = by_anyone(mixture(solo, weights, [SamplingParams()] * len(solo)))
    return lambda tokens: filtered(np.log(average(tokens)[0]), sampling)[None]


def by_anyone(step: Step) -> Step:
    """The tokens alone, as if one model made them all."""
    return lambda tokens: step(tokens).sum(axis=0, keepdims=True)


def filtered(logits: NDArray[np.floating[Any]], sampling: SamplingParams) -> Shares:
    """The probability of each token of the vocabulary to be sampled."""
    ids, weights = kept_tokens(logits, sampling)
    shares = np.zeros(len(logits))
    shares[ids] = weights / weights.sum()
    return shares


def partition(step: Step, prompt: list[int]) -> list[Cell]:
    """Everything that is not rare."""
    first = step(prompt)
    cells: list[Cell] = []
    for model, token in np.argwhere(first >= RARE).tolist():
        both = first[model, token] * step([*prompt, token])
        cells += [((model, token), (m, t)) for m, t in np.argwhere(both >= RARE).tolist()]
    return cells


def shares_of(
    cells: list[Cell], prompt: list[int], step: Step, after: Callable[[int], Step] | None = None
) -> Shares:
    """The cells' probabilities. after: the step that follows a model's token, if it depends."""
    first = step(prompt)
    following = {
        made: (step if after is None else after(made[0]))([*prompt, made[1]])
        for made in {made for made, _ in cells}
    }
    return np.array([first[made] * following[made][then] for made, then in cells])


def p_value(sample: Counter[Cell], cells: list[Cell], shares: Shares) -> float:
    """Of Pearson's χ² test of the cells' shares; whatever is in no cell is one more.

    By parametric bootstrap, which needs no large expectation anywhere: the share of samples drawn
    from `shares` that are no nearer to it than this one, itself counted.
    """
    everywhere = np.append(shares, max(1.0 - shares.sum(), 0.0)) + 1e-12
    everywhere /= everywhere.sum()
    size = sample.total()
    counts = [sample[cell] for cell in cells]
    counts.append(size - sum(counts))
    drawn = np.random.default_rng(1).multinomial(size, everywhere, BOOTSTRAP)
    expected = size * everywhere
    distances = ((np.vstack([counts, drawn]) - expected) ** 2 / expected).sum(axis=1)
    return float(np.mean(distances >= distances[0]))


def test_what_is_served_has_the_mixtures_distribution(served: Served) -> None:
    shares = shares_of(served.cells, served.prompt, served.exact)
    assert len(shares) > 20
    assert shares.sum() > 0.8
    assert p_value(served.sample, served.cells, shares) > ACCEPTED


@pytest.mark.parametrize(
    ("weights", "samplings"),
    [
        ("equal", "own"),
        ("reversed", "own"),
        ("own", "another model's"),
        ("own", "the request's"),
    ],
)
def test_other_weights_or_settings_are_refused(
    weights: str, samplings: str, served: Served
) -> None:
    ensemble = served.ensemble
    own, count = ensemble.samplings, len(ensemble.models)
    step = mixture(
        served.solo,
        {
            "own": ensemble.weights,
            "equal": [1.0] * count,
            "reversed": ensemble.weights[::-1],
        }[weights],
        {
            "own": own,
            "another model's": [*own[1:], own[0]],
            "the request's": [REQUESTED] * count,
        }[samplings],
    )
    shares = shares_of(served.cells, served.prompt, step)
    assert p_value(served.sample, served.cells, shares) < REFUSED


def test_a_model_drawn_for_a_whole_answer_is_refused(served: Served) -> None:
    """Every token by itself would then have the right distribution, but the two are not."""

    def alone(model: int) -> Step:
        weights = [float(index == model) for index in range(len(served.solo))]
        return mixture(served.solo, weights, served.ensemble.samplings)

    shares = shares_of(served.cells, served.prompt, served.exact, alone)
    assert p_value(served.sample, served.cells, shares) < REFUSED


def test_merging_the_models_distributions_is_refused(served: Served) -> None:
    """By the tokens alone, with which the mixture passes: what is merged has no model."""
    sample: Counter[Cell] = Counter()
    for ((_, first), (_, second)), count in served.sample.items():
        sample[(0, first), (0, second)] += count
    mixed = by_anyone(served.exact)
    cells = partition(mixed, served.prompt)
    assert p_value(sample, cells, shares_of(cells, served.prompt, mixed)) > ACCEPTED
    for sampling in (SamplingParams(), *served.ensemble.samplings):
        step = merged(served.solo, served.ensemble.weights, sampling)
        assert p_value(sample, cells, shares_of(cells, served.prompt, step)) < REFUSED
