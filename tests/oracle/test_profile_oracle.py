"""Concurrent equals sequential on the profile engine: every schedule, no model files.

Every two of algorithm, clients, schedule and amount of KV meet in at least one test.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.oracle import sequential
from tests.support.oracle.concurrent_clients import answers, assert_equal
from tests.support.oracle.own_routing import ANY, ONE_MODEL, with_own_routing
from tests.support.oracle.profile_model import SoloProfile
from tests.support.pairwise import pairwise
from tests.support.trsched.groups import profile_config
from trsched.group import Group
from trsched.plan.config import ProfileModel
from trsched.request import GenerateRequest, SamplingParams

ALGORITHMS: dict[str, tuple[str, dict[str, Any], int]] = {
    "fixed-0": ("fixed", {"model": 0}, 2),
    "fixed-1": ("fixed", {"model": 1}, 2),
    "bernoulli": ("bernoulli", {"p": 0.3}, 2),
    "bernoulli-bursts": ("bernoulli", {"p": 0.2, "tokens_per_call": 3}, 2),
    "bernoulli-both-ways": ("bernoulli", {"p": 0.3, "q": 0.4}, 2),
    "me": ("me", {}, 2),
    "me3": ("me", {"weights": [1.0, 2.0, 3.0]}, 3),
}


def plan(
    router: str, settings: dict[str, Any], models: int, request: GenerateRequest
) -> tuple[int, sequential.Decide]:
    seed, prompt = request.sampling.seed, len(request.prompt_ids)
    if request.only is not None:
        return sequential.fixed(request.only)
    match router:
        case "fixed":
            return sequential.fixed(settings["model"])
        case "bernoulli":
            calls = settings.get("tokens_per_call", 1)
            p = settings["p"] if request.threshold is None else request.threshold
            return sequential.bernoulli(p, seed, prompt, calls, settings.get("q"))
    return sequential.mixture(settings.get("weights", [1.0] * models), seed)


SCHEDULES: dict[str, dict[str, Any]] = {
    "eager": {"delayed_batching": "off"},
    "delayed": {"delayed_batching": "fixed"},
    "tuned": {"delayed_batching": "auto"},
    "lockstep": {"execution": "lockstep"},
    "readmit": {"delayed_batching": "fixed", "handoff": "readmit"},
    "taking-turns": {"delayed_batching": "fixed", "overlap": False},
}


CLIENTS = [1, 4, 16]
RECLAIMS = ("bernoulli", 16, "delayed", "scarce")
"""Where pending KV is bound to be reclaimed."""

COMBINATIONS = pairwise(
    list(ALGORITHMS), CLIENTS, list(SCHEDULES), ["ample", "scarce"], first=[RECLAIMS]
)


def test_the_combinations_are_few() -> None:
    assert RECLAIMS in COMBINATIONS
    assert 42 <= len(COMBINATIONS) < 60  # of 252; seven algorithms meet six schedules


@pytest.mark.parametrize(("algorithm", "clients", "schedule", "sequences"), COMBINATIONS)
def test_concurrent_equals_sequential(
    algorithm: str, clients: int, schedule: str, sequences: str
) -> None:
    compare(algorithm, clients, schedule, sequences)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("algorithm", ["bernoulli", "me3"])
def test_processes_equal_sequential(algorithm: str, schedule: str) -> None:
    compare(algorithm, 16, schedule, "scarce", processes=True)


OWN_ROUTING = {
    "bernoulli": ANY,
    "bernoulli-bursts": ANY,
    "bernoulli-both-ways": ANY,
    "me3": [*ONE_MODEL, {"only": 2}, {}],
}


@pytest.mark.parametrize(
    ("algorithm", "clients", "schedule"),
    pairwise(list(OWN_ROUTING), CLIENTS, list(SCHEDULES)),
)
def test_requests_with_their_own_routing(algorithm: str, clients: int, schedule: str) -> None:
    compare(algorithm, clients, schedule, "scarce", OWN_ROUTING[algorithm])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("algorithm", ["bernoulli", "me3"])
def test_requests_with_their_own_routing_in_processes(algorithm: str, schedule: str) -> None:
    compare(algorithm, 16, schedule, "scarce", OWN_ROUTING[algorithm], processes=True)


def compare(
    algorithm: str,
    clients: int,
    schedule: str,
    sequences: str,
    kinds: Sequence[dict[str, Any]] = ({},),
    **group: Any,
) -> None:
    router, settings, count = ALGORITHMS[algorithm]
    config = profile_config(
        router,
        settings,
        models=count,
        thresholds=[2, 3, 2][:count],
        eos_rate=0.02,
        max_active=16,
        # scarce: KV for 5 requests where 16 may be active, so pending KV is reclaimed all the time
        kv_memory="64MiB" if sequences == "ample" else f"{5 * 256 * count}KiB",
        **SCHEDULES[schedule],
        **group,
    )
    rng = random.Random(clients)
    requests = [
        GenerateRequest(
            request_id=str(i),
            prompt_ids=[rng.randrange(256) for _ in range(rng.randrange(1, 60))],
            max_tokens=rng.randrange(1, 60),
            sampling=SamplingParams(seed=rng.getrandbits(64)),
            stop_token_ids=frozenset({256}),
        )
        for i in range(2 * clients + 6)
    ]
    requests = with_own_routing(requests, kinds)
    give_up_after = {i: rng.randrange(1, 20) for i in range(len(requests)) if i % 5 == 4}
    models = []
    for index, model in enumerate(config.models):
        assert isinstance(model, ProfileModel)
        models.append(SoloProfile(model, index))
    expected = [
        sequential.generate(
            models,
            *plan(router, settings, count, request),
            request.prompt_ids,
            request.sampling,
            request.max_tokens,
            request.stop_token_ids,
        )
        for request in requests
    ]
    serving = Group.open(config)
    try:
        assert_equal(answers(serving, requests, clients, give_up_after), expected, give_up_after)
        assert serving.drain(20)
    finally:
        serving.close()
    subservers = serving.status().subservers
    assert [subserver.sequences_used for subserver in subservers] == [0] * count
    assert [subserver.alive for subserver in subservers] == [True] * count
    if sequences == "scarce" and clients == 16 and router != "fixed" and schedule == "delayed":
        assert sum(subserver.kv_reclaims for subserver in subservers) > 0
