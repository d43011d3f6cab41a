"""R2R, CITER and Co-LLM with the checkpoints that trserve ships: concurrent equals sequential."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.oracle import sequential
from tests.support.oracle.concurrent_clients import assert_served
from tests.support.oracle.reference_routers import ROUNDING, ReferenceRouter
from trrouters.package_path import locate
from trsched.errors import ConfigError

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from tests.support.oracle.demo_models import PAIR, model_file, open_group, open_solo
from tests.support.oracle.demo_requests import make_requests
from tests.support.oracle.llama_model import SoloLlama
from tests.support.oracle.own_routing import ANY, with_own_routing
from trsched.models.vocabulary import GgufVocabulary

pytestmark = [pytest.mark.models, pytest.mark.slow]

CHECKPOINT = {
    "r2r": "package://trserve/routers/smol-r2r",
    "citer": "package://trserve/routers/smol-citer",
    "co_llm": "package://trserve/routers/smol-co-llm",
}


@pytest.fixture(scope="module")
def solo() -> Iterator[list[SoloLlama]]:
    try:
        models = open_solo(PAIR, first_sees=True)
    except ConfigError as error:
        pytest.skip(str(error))
    yield models
    for model in models:
        model.close()


@pytest.fixture(scope="module")
def vocabulary() -> GgufVocabulary:
    return GgufVocabulary(model_file(PAIR[0]))


CASES = [
    ("r2r", {}, {}),
    ("r2r", {"threshold": 0.8}, {}),
    ("r2r", {"threshold": 0.0}, {}),  # every token
    ("citer", {}, {}),
    ("citer", {"threshold": 0.5}, {"overlap": True}),
    ("co_llm", {}, {}),
    ("co_llm", {"tokens_per_call": 4}, {"kv_memory": "40MiB"}),  # KV for 5 of 16
]


@pytest.mark.parametrize(("router", "settings", "more"), CASES, ids=str)
def test_concurrent_equals_sequential(
    router: str,
    settings: dict[str, Any],
    more: dict[str, Any],
    solo: list[SoloLlama],
    vocabulary: GgufVocabulary,
) -> None:
    requests = make_requests(vocabulary, 18, seed=6)
    reference = ReferenceRouter(_folder(router), settings.get("threshold"))
    expected = [
        sequential.generate(
            solo,
            *sequential.one_token_visits(lambda: reference.hands_over(solo[0].sight)),
            request.prompt_ids,
            request.sampling,
            request.max_tokens,
            request.stop_token_ids,
        )
        for request in requests
    ]
    assert reference.closest > ROUNDING  # else the case says nothing: choose another threshold
    made_by = {model for answer in expected for model in answer.models}
    assert made_by == ({1} if settings.get("threshold") == 0.0 else {0, 1})
    group = open_group(router, {"checkpoint": CHECKPOINT[router], **settings}, **more)
    assert_served(group, requests, expected)


@pytest.mark.parametrize("router", CHECKPOINT)
def test_requests_with_their_own_routing(
    router: str, solo: list[SoloLlama], vocabulary: GgufVocabulary
) -> None:
    requests = with_own_routing(make_requests(vocabulary, 18, seed=6), ANY)
    expected = []
    for request in requests:
        reference = ReferenceRouter(_folder(router), request.threshold)
        plan = sequential.one_token_visits(partial(_hands_over, reference, solo[0]))
        if request.only is not None:
            plan = sequential.fixed(request.only)
        expected.append(
            sequential.generate(
                solo,
                *plan,
                request.prompt_ids,
                request.sampling,
                request.max_tokens,
                request.stop_token_ids,
            )
        )
        assert reference.closest > ROUNDING  # else the case says nothing: choose other requests
    group = open_group(router, {"checkpoint": CHECKPOINT[router]})
    assert_served(group, requests, expected)


@pytest.mark.parametrize("tokens_per_call", [1, 3, 10])
def test_co_llm_in_calls_is_the_same(
    tokens_per_call: int, solo: list[SoloLlama], vocabulary: GgufVocabulary
) -> None:
    """Cutting a call at its first deferral gives what looking at every token gives."""
    reference = ReferenceRouter(_folder("co_llm"))

    def defers() -> bool:
        return reference.hands_over(solo[0].sight)

    for request in make_requests(vocabulary, 6, seed=7):
        in_calls = sequential.in_calls(
            solo[0],
            solo[1],
            defers,
            tokens_per_call,
            request.prompt_ids,
            request.sampling,
            request.max_tokens,
            request.stop_token_ids,
        )
        token_by_token = sequential.generate(
            solo,
            *sequential.one_token_visits(defers),
            request.prompt_ids,
            request.sampling,
            request.max_tokens,
            request.stop_token_ids,
        )
        assert in_calls == token_by_token


def _hands_over(reference: ReferenceRouter, small: SoloLlama) -> bool:
    return reference.hands_over(small.sight)


def _folder(router: str) -> Path:
    return locate(CHECKPOINT[router])
