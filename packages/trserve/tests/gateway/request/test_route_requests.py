"""What a client may ask for in `routebalance.models`, and how a refusal says why."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from rbalance import InstanceState, NoInstanceError, Predictions, WhyNot
from rbalance.policies.batch import RequestBatch
from rbalance.policies.candidates import reasons
from tests.support.gateway.gateway_parts import instance, opened, small_config
from trserve.gateway.http.body_parser import parse_body
from trserve.gateway.pool.pool import Pool
from trserve.gateway.request.parsed_body import ParsedBody
from trserve.gateway.request.route_requests import RouteRequests
from trserve.http.errors import ApiError


def asked(**fields: Any) -> ParsedBody:
    body = {"model": "auto", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return parse_body(json.dumps(body).encode(), "chat")


def requests_of(
    models: list[dict[str, Any]], instances: list[dict[str, Any]]
) -> tuple[RouteRequests, Pool]:
    requests, pool, _ = requests_and_state(models, instances)
    return requests, pool


def requests_and_state(
    models: list[dict[str, Any]], instances: list[dict[str, Any]]
) -> tuple[RouteRequests, Pool, InstanceState]:
    config = small_config(models=models, instances=instances)
    balancing, pool = opened(config)
    return RouteRequests(config, pool), pool, balancing.state


def refusal(requests: RouteRequests, body: ParsedBody, state: InstanceState) -> ApiError:
    """With what the balancer says of each instance, whether or not one could take it."""
    ones = np.ones((1, len(state.models)), np.float32)
    known = Predictions(ones, ones, np.zeros_like(ones, np.bool_))
    flags = reasons(RequestBatch.of([requests.of(body, 0)], state.models, known), state.view)[0]
    why = {at: WhyNot(int(flags[at])) for at, tier in enumerate(state.tier) if tier is not None}
    return requests.refusal(body, NoInstanceError("no instance may take this request", why))


THREE = [{"name": name} for name in ("x", "y", "z")]


def test_order_and_repeats_of_models_do_not_matter() -> None:
    requests, _ = requests_of(THREE, [instance(name, name) for name in "xyz"])
    for names in itertools.product("xyz", repeat=3):
        found = requests.of(asked(routebalance={"models": list(names)}), 0)
        assert found.models == tuple(name for name in "xyz" if name in names)


def test_at_most_a_hundred_of_them() -> None:
    asked(routebalance={"models": ["x"] * 100})
    with pytest.raises(ApiError, match="100") as caught:
        asked(routebalance={"models": ["x"] * 101})
    assert (caught.value.status_code, caught.value.param) == (400, "routebalance.models")


def test_sets_that_clients_make_up_do_not_fill_memory() -> None:
    """And those beyond what is kept are right as well."""
    names = [f"m{at}" for at in range(10)]
    models = [{"name": name, "context": 1000 + at} for at, name in enumerate(names)]
    requests, pool = requests_of(models, [instance(name, name) for name in names])
    for bits in range(1, 1024):
        chosen = [name for at, name in enumerate(names) if bits >> at & 1]
        body = asked(routebalance={"models": chosen}, max_tokens=5000)
        assert requests.of(body, 0).max_tokens == 1000 + bits.bit_length() - 1
    assert len(requests._known) == 256
    pool.retire(pool.instances[0])  # from now on all is found out anew
    requests.of(asked(), 0)
    assert len(requests._known) == 1


ABLE = [{"name": "t", "capabilities": ["tools"]}, {"name": "i", "capabilities": ["images"]}]
TOOLS = {"tools": [{"type": "function"}]}
IMAGES = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}


def test_what_no_single_model_can_do_is_the_clients_mistake() -> None:
    """One has tools, the other takes images, the request wants both."""
    requests, _, state = requests_and_state(ABLE, [instance("a", "t"), instance("b", "i")])
    both = refusal(requests, asked(**TOOLS, **IMAGES), state)
    assert (both.status_code, both.code) == (400, "unsupported")
    assert "tools" in both.message
    assert "images" in both.message
    json_too = refusal(requests, asked(**TOOLS, response_format={"type": "json_object"}), state)
    assert (json_too.code, json_too.param) == ("unsupported", "json")
    assert (
        refusal(requests, asked(**TOOLS), state).code == "no_instance"
    )  # the one that can is busy


@pytest.mark.parametrize(("up", "code"), [(True, "no_candidate"), (False, "no_instance")])
@pytest.mark.asyncio
async def test_ceilings_are_to_blame_only_where_somebody_is_up(up: bool, code: str) -> None:
    requests, pool, state = requests_and_state([{"name": "x"}], [instance("a", "x")])
    pool.checked(pool.instances[0], up, "as told")
    found = refusal(requests, asked(routebalance={"max_usd": 0}), state)
    assert (found.status_code, found.code) == (503, code)
    assert refusal(requests, asked(), state).code == "no_instance"
