"""The latency target: requests that were served move the weights, slowly (`slo.target_s`)."""

from __future__ import annotations

import pytest

from rbalance.decide.slo_controller import RELIEF
from rbalance.policies.weights import PRESETS
from tests.support.gateway.gate import Gate
from tests.support.gateway.gateway_parts import small_config
from tests.support.gateway.upstream_answers import (
    DONE,
    always,
    chat_events,
    chunk,
    chunked_head,
    error_body,
    event,
    play,
    polite,
    streamed,
)
from trserve.gateway.pool.balancing import Balancing, open_balancing

SERVER_ERROR = {"error": {"message": "no", "type": "server_error"}}
BOOT = 50_000.0
"""Seconds of a clock that began long before the gateway did."""


def leaning(weights: str = "quality") -> Balancing:
    return open_balancing(small_config(slo={"target_s": 1.0}, weights=weights))


def share(balancing: Balancing, base: str = "quality") -> float:
    """How far the weights in force are on the way from `base` to latency alone."""
    assert balancing.weights is not None
    moved = (balancing.weights.latency - PRESETS[base].latency) / (1 - PRESETS[base].latency)
    assert tuple(balancing.weights) == pytest.approx(
        tuple(PRESETS[base].toward(RELIEF, moved)), abs=1e-9
    )
    return moved


def test_the_first_slow_request_does_not_move_them_all_the_way() -> None:
    balancing = leaning()
    balancing.ended(100.0, BOOT)
    assert share(balancing) == pytest.approx(0, abs=1e-9)
    balancing.ended(100.0, BOOT + 1)
    assert share(balancing) == pytest.approx(0.05)


def test_nor_does_one_after_a_long_pause() -> None:
    balancing = leaning()
    balancing.ended(0.95, BOOT)
    balancing.ended(100.0, BOOT + 9000)
    assert share(balancing) == pytest.approx(0.5)


def test_other_weights_by_a_reload_start_where_the_old_ones_had_moved_to() -> None:
    balancing = leaning()
    for second in range(4):
        balancing.ended(100.0, BOOT + second)
    assert share(balancing) == pytest.approx(0.15)
    balancing.configure(small_config(slo={"target_s": 1.0}, weights="cost"))
    assert share(balancing, "cost") == pytest.approx(0.15)
    balancing.ended(100.0, BOOT + 4)
    assert share(balancing, "cost") == pytest.approx(0.2)


def test_without_a_target_nothing_moves() -> None:
    balancing = open_balancing(small_config(weights="quality"))
    for second in range(4):
        balancing.ended(100.0, BOOT + second)
    assert balancing.weights == PRESETS["quality"]


def test_only_requests_that_were_served_count(upstreams, gateways) -> None:
    """A quick refusal is no quick answer."""
    (server,) = upstreams(polite)
    gateway = gateways(
        [server], slo={"target_s": 1.0}, retries={"attempts": 1}, timeouts={"idle_s": 0.5}
    )
    counted: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Balancing, "ended", lambda self, seconds, now: counted.append(seconds))
        first = chat_events(["a"])[0]
        for script, stream in (
            (always(500), False),
            (always(400, error_body("no")), False),
            (always(429), False),
            (play(b""), False),
            (play(chunked_head(), chunk(first)), True),
            (play(chunked_head(), chunk(first), Gate()), True),
            (streamed([event(SERVER_ERROR), DONE]), True),
        ):
            server.answer = script
            gateway.chat(stream=stream)
            gateway.wait_until_idle()
            assert counted == []
        assert gateway.chat(model="nobody").status_code == 404
        assert counted == []
        server.answer = play(chunked_head(), chunk(first), Gate())
        with gateway.stream() as answer:
            assert next(answer.iter_bytes())
        gateway.wait_until_idle()
        assert counted == []
        server.answer = polite
        for stream in (False, True):
            assert gateway.chat(stream=stream).status_code == 200
        gateway.wait_until_idle()
        assert len(counted) == 2
