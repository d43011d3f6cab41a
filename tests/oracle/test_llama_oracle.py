"""Concurrent equals sequential on the demo pair: real models, real hand-offs, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace as changed

from tests.support.oracle import sequential
from tests.support.oracle.concurrent_clients import answers, assert_served
from trsched.errors import ConfigError
from trsched.group import Group
from trsched.request import GenerateRequest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from tests.support.oracle.demo_models import PAIR, THREE, model_file, open_group, open_solo
from tests.support.oracle.demo_requests import make_requests
from tests.support.oracle.llama_model import SoloLlama
from tests.support.oracle.own_routing import ANY, ONE_MODEL, with_own_routing
from trsched.models.vocabulary import GgufVocabulary

pytestmark = [pytest.mark.models, pytest.mark.slow]

THRESHOLDS = {"bernoulli": "p", "r_stitch": "tau"}
OWN_SAMPLING: list[dict[str, float]] = [
    {"temperature": 0.7, "top_k": 20},
    {"temperature": 1.1, "top_p": 0.8},
]


@pytest.fixture(scope="module")
def solo() -> Iterator[list[SoloLlama]]:
    """The pair and the third model."""
    try:
        models = open_solo(THREE)
    except ConfigError as error:
        pytest.skip(str(error))
    yield models
    for model in models:
        model.close()


@pytest.fixture(scope="module")
def vocabulary() -> GgufVocabulary:
    return GgufVocabulary(model_file(PAIR[0]))


def sequential_plan(
    router: str, settings: dict[str, Any], request: GenerateRequest
) -> tuple[int, sequential.Decide]:
    if request.only is not None:
        return sequential.fixed(request.only)
    if request.threshold is not None:
        settings = settings | {THRESHOLDS[router]: request.threshold}
    match router:
        case "fixed":
            return sequential.fixed(settings["model"])
        case "bernoulli":
            prompt = len(request.prompt_ids)
            return sequential.bernoulli(settings["p"], request.sampling.seed, prompt)
        case "me":
            return sequential.mixture(settings.get("weights", [1.0, 1.0]), request.sampling.seed)
    return sequential.r_stitch(settings["tau"], settings.get("keep_return_token", True))


CASES = [
    ("fixed", {"model": 0}, {}),
    ("fixed", {"model": 1}, {}),
    ("bernoulli", {"p": 0.3}, {}),
    ("r_stitch", {"tau": 0.1}, {}),
    ("r_stitch", {"tau": 0.3}, {}),
    ("r_stitch", {"tau": 0.3, "keep_return_token": False}, {}),
    ("r_stitch", {"tau": 1.5}, {}),
    ("r_stitch", {"tau": -0.5}, {}),
    ("me", {}, {}),
    ("r_stitch", {"tau": 0.3}, {"overlap": True}),
    ("r_stitch", {"tau": 0.3}, {"processes": True}),
    ("me", {"weights": [1.0, 3.0]}, {"kv_memory": "40MiB"}),  # KV for 5 of 16: reclaimed often
]


@pytest.mark.parametrize(("router", "settings", "more"), CASES, ids=str)
def test_concurrent_equals_sequential(
    router: str,
    settings: dict[str, Any],
    more: dict[str, Any],
    solo: list[SoloLlama],
    vocabulary: GgufVocabulary,
) -> None:
    requests = make_requests(vocabulary, 18, seed=3)
    assert_sequential(solo[:2], router, settings, requests, **more)


@pytest.mark.parametrize(
    ("router", "settings", "kinds", "more"),
    [
        ("r_stitch", {"tau": 0.3}, ANY, {}),
        ("r_stitch", {"tau": 0.3}, ANY, {"processes": True, "kv_memory": "40MiB"}),
        ("me", {}, ONE_MODEL, {}),
    ],
    ids=["r_stitch", "r_stitch-in-processes", "me"],
)
def test_requests_with_their_own_routing(
    router: str,
    settings: dict[str, Any],
    kinds: list[dict[str, Any]],
    more: dict[str, Any],
    solo: list[SoloLlama],
    vocabulary: GgufVocabulary,
) -> None:
    """Each as in a group with that threshold, or as its one model alone, served together."""
    requests = with_own_routing(make_requests(vocabulary, 18, seed=8), kinds)
    assert_sequential(solo[:2], router, settings, requests, **more)


@pytest.mark.parametrize(("mode", "model"), [("slm-only", 0), ("llm-only", 1)])
def test_bound_to_one_model_is_served_as_in_its_mode(
    mode: str, model: int, vocabulary: GgufVocabulary
) -> None:
    """Beside the same requests, routed. In its mode the large model is model 0, and draws as such:
    of it the greedy ones are compared."""
    requests = [
        request
        for request in make_requests(vocabulary, 12, seed=9)
        if model == 0 or request.sampling.temperature == 0
    ]
    settings = {"tau": 0.3}
    alone = tokens_of(open_group("r_stitch", settings, mode=mode), requests)
    bound = [changed(request, only=model) for request in requests]
    both = tokens_of(open_group("r_stitch", settings), [*bound, *requests])
    assert both[: len(bound)] == alone
    assert both[len(bound) :] != alone


def tokens_of(group: Group, requests: Sequence[GenerateRequest]) -> list[list[int]]:
    try:
        return [answer.tokens for answer, _ in answers(group, requests, 16, {})]
    finally:
        group.close()


def test_each_model_with_its_own_sampling(
    solo: list[SoloLlama], vocabulary: GgufVocabulary
) -> None:
    """Half of the requests are greedy, which counts in neither model; reclaimed ones start anew."""
    assert_sequential(
        [sequential.OwnSampling(*both) for both in zip(solo[:2], OWN_SAMPLING, strict=True)],
        "me",
        {"weights": [1.0, 3.0]},
        make_requests(vocabulary, 10, seed=3),
        clients=(16,),
        models=[model | {"sampling": own} for model, own in zip(PAIR, OWN_SAMPLING, strict=True)],
        kv_memory="40MiB",
    )


def test_three_models(solo: list[SoloLlama], vocabulary: GgufVocabulary) -> None:
    assert_sequential(
        solo,
        "me",
        {"weights": [1.0, 2.0, 3.0]},
        make_requests(vocabulary, 10, seed=4),
        clients=(16,),
        models=THREE,
    )


def assert_sequential(
    solo: Sequence[sequential.Model],
    router: str,
    settings: dict[str, Any],
    requests: list[GenerateRequest],
    clients: Sequence[int] = (1, 4, 16),
    **more: Any,
) -> None:
    """Clients get what the sequential program emits, and afterwards no KV is held."""
    expected = [
        sequential.generate(
            solo,
            *sequential_plan(router, settings, request),
            request.prompt_ids,
            request.sampling,
            request.max_tokens,
            request.stop_token_ids,
        )
        for request in requests
    ]
    group = open_group(router, settings, **more)
    assert_served(group, requests, expected, clients)
    subservers = group.status().subservers
    assert len(subservers) == len(solo)
    if router == "me":
        assert all(subserver.tokens_committed for subserver in subservers)
    if "kv_memory" in more:
        assert sum(subserver.kv_reclaims for subserver in subservers) > 0


@pytest.mark.parametrize(("tau", "model"), [(1.5, 0), (-0.5, 1)])
def test_r_stitch_at_its_ends_is_one_model_alone(
    tau: float, model: int, solo: list[SoloLlama], vocabulary: GgufVocabulary
) -> None:
    """Of the definition; that the server does the same is shown by the cases tau 1.5 and -0.5."""
    for request in make_requests(vocabulary, 4, seed=5):
        stitched, alone = (
            sequential.generate(
                solo,
                *plan,
                request.prompt_ids,
                request.sampling,
                request.max_tokens,
                request.stop_token_ids,
            )
            for plan in (sequential.r_stitch(tau), sequential.fixed(model))
        )
        assert stitched == alone
