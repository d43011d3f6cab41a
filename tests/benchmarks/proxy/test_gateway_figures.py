"""From what was seen to the figures of `benchmarks.gateway` and `benchmarks.burst`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import burst, gateway
from benchmarks.proxy.phases import STEP_S, TOKENS, ProxyFigures, is_held, most_held
from benchmarks.proxy.predicted import Predicted
from benchmarks.proxy.proxy_client import ProxyReply
from benchmarks.proxy.proxy_process import Proxy
from benchmarks.proxy.small_instances import ServerLoad
from benchmarks.proxy.streams import Flow

MOST = 4096


def measured(name: str, **figures: float) -> ProxyFigures:
    return ProxyFigures(Proxy(name, 1, None if name == "direct" else 2, "m", {}), figures)


@given(st.integers(0, 10_000))
def test_the_ladder_ends_within_half_a_step_of_the_most(limit: int) -> None:
    asked = []

    def held(count: int) -> bool:
        asked.append(count)
        return count <= limit

    found = most_held(held, 64, MOST)
    assert len(asked) <= 9
    assert found <= MOST
    if limit >= MOST:
        assert found == MOST
    elif found:
        assert found <= limit < 2 * found
    else:
        assert limit < 4


@pytest.mark.parametrize(
    ("gap_s", "share", "failures", "held"),
    [
        (STEP_S, 1.0, {}, True),
        (2 * STEP_S, 0.85, {}, True),
        (2.1 * STEP_S, 1.0, {}, False),
        (STEP_S, 0.7, {}, False),
        (STEP_S, 1.0, {"status 503": 1}, False),
    ],
)
def test_streams_are_held_if_all_come_at_their_pace(
    gap_s: float, share: float, failures: dict[str, int], held: bool
) -> None:
    events = round(share * 64 / STEP_S * (TOKENS + 3) / TOKENS)
    flow = Flow(64, 1.0, events, np.full(events, gap_s), np.zeros(1), failures, 0.0)
    assert is_held(ProxyFigures(Proxy("p", 1, 2, "m", {}), extra_events=3), flow) is held


def test_nothing_came_is_not_held() -> None:
    flow = Flow(64, 1.0, 0, np.empty(0), np.empty(0), {}, 0.0)
    assert not is_held(measured("p"), flow)
    assert flow.first_s == float("inf")


def test_added_is_what_direct_access_has_not() -> None:
    direct = measured("direct", p50_ms=1.0, open_p99_ms=2.0, ttft_ms_64=3.0, rps_64=100.0)
    ours = measured(
        "minilm",
        p50_ms=2.5,
        open_p99_ms=9.0,
        ttft_ms_64=4.0,
        rps_64=50.0,
        cpu_ms_per_request_64=0.5,
    )
    assert gateway.added(ours, direct) == {
        "added_p50_ms": 1.5,
        "added_open_p99_ms": 7.0,
        "added_ttft_ms_64": 1.0,
        "rps_64": 50.0,
        "cpu_ms_per_request_64": 0.5,
    }
    assert gateway.added(direct, direct) == direct.figures


def test_the_predicted_share_is_that_of_requests_in_between() -> None:
    assert Predicted(150, 90).share_since(Predicted(50, 50)) == 0.4
    assert Predicted(50, 50).share_since(Predicted(50, 50)) == 0


def test_more_is_better_in_every_ratio() -> None:
    ours = {
        "rps_64": 50.0,
        "rps_256": 80.0,
        "cpu_ms_per_request_64": 0.5,
        "cpu_ms_per_request_256": 0.4,
    }
    peer = {
        "rps_64": 10.0,
        "rps_256": 20.0,
        "cpu_ms_per_request_64": 5.0,
        "cpu_ms_per_request_256": 2.0,
    }
    found = gateway.ratios({"minilm": ours, "prior": ours, "vllm-router": peer})
    assert found == {
        "rps_ratio_vllm_router": 5.0,
        "rps_ratio_vllm_router_256": 4.0,
        "cpu_ratio_vllm_router": 10.0,
        "cpu_ratio_vllm_router_256": 5.0,
        "rps_ratio_vllm_router_prior": 5.0,
        "rps_ratio_vllm_router_256_prior": 4.0,
        "cpu_ratio_vllm_router_prior": 10.0,
        "cpu_ratio_vllm_router_256_prior": 5.0,
    }


def test_the_report_ends_with_figures_alone(capsys: pytest.CaptureFixture[str]) -> None:
    direct = measured("direct", p50_ms=1.0, p99_ms=2.0, ttft_ms_64=3.0)
    ours = measured("minilm", p50_ms=2.5, p99_ms=3.0, ttft_ms_64=float("inf"), streams_held=64)
    ours.failures["status 503"] = 3
    gateway.report([direct, ours], {"litellm": "not installed"})
    out = capsys.readouterr().out
    line = json.loads(out.splitlines()[-1])
    assert line["added_p50_ms"] == 1.5
    assert line["p50_ms_direct"] == 1.0
    assert line["streams_held"] == 64
    assert line["missing"] == ["litellm"]
    assert "added_ttft_ms_64" not in line, "infinity is no JSON"
    assert "litellm: not measured: not installed" in out
    assert "status 503" in out


def test_imbalance_is_that_of_the_fullest_moment_and_the_worst_since() -> None:
    samples = [
        [(9, 0)] * 2,
        [(10, 0), (30, 0)],
        [(10, 5), (20, 5)],
        [(0, 20), (20, 10)],
        [(1, 9)] * 2,
    ]
    loads = [[ServerLoad(running, finished) for running, finished in sample] for sample in samples]
    assert burst.imbalance(loads) == {"imbalance_max_mean": 1.5, "imbalance_worst": 2.0}


def test_lost_is_what_has_not_all_its_tokens() -> None:
    usage = b'data: {"usage":{"prompt_tokens":3,"completion_tokens":%d}}\n\ndata: [DONE]\n\n'
    assert burst.is_complete(ProxyReply(0.0, tail=usage % 17), 17)
    assert not burst.is_complete(ProxyReply(0.0, tail=usage % 16), 17)
    assert not burst.is_complete(ProxyReply(0.0, tail=usage % 17, failure="status 503"), 17)
    assert not burst.is_complete(ProxyReply(0.0, tail=b"data: [DONE]\n\n"), 17)
