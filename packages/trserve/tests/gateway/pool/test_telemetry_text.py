"""trserve.gateway.pool.telemetry_text: every server's page is understood, and no page breaks it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from rbalance import Telemetry
from tests.support.gateway import metrics_pages as pages
from trsched.shared.counters import GroupStatus, SubserverStats
from trsched.shared.step_counters import StepCounters
from trserve.gateway.pool.telemetry_text import TelemetryReading, read_metrics
from trserve.server.metrics.group_collector import GroupCollector


@pytest.mark.parametrize(
    ("page", "kind", "telemetry"),
    [
        (pages.VLLM, "vllm", Telemetry(21, 3, 0.5)),
        (pages.SGLANG, "sglang", Telemetry(5, 2, 0.28)),
        (pages.TRTLLM, "trtllm", Telemetry(4, 1, 0.62)),
        (pages.LLAMACPP, "llamacpp", Telemetry(2, 1)),
        (pages.TRSERVE, "trserve", Telemetry(32, 6, 0.9)),
        (pages.TRGATEWAY, "trgateway", Telemetry(7, 5)),
    ],
)
def test_a_servers_page_is_recognised(page: bytes, kind: str, telemetry: Telemetry) -> None:
    expected = TelemetryReading(telemetry, kind)
    assert read_metrics(page) == expected
    assert read_metrics(page.replace(b"\n", b"\r\n")) == expected
    assert read_metrics(page.replace(b"\n", b" 1764496800000\n")) == expected, "with times"
    for prefix in (b"vllm", b"sglang", b"llamacpp"):
        page = page.replace(prefix + b":", prefix + b"_")
    assert read_metrics(page) == expected


def test_older_names_of_vllm_and_llama_cpp() -> None:
    older = pages.VLLM.replace(b"vllm:kv_cache_usage_perc", b"vllm:gpu_cache_usage_perc")
    assert read_metrics(older) == TelemetryReading(Telemetry(21, 3, 0.5), "vllm")
    older = pages.LLAMACPP + b"llamacpp:kv_cache_usage_ratio 0.125\n"
    assert read_metrics(older) == TelemetryReading(Telemetry(2, 1, 0.125), "llamacpp")


def sglang(name: str, value: float, **ranks: object) -> bytes:
    labels = ",".join(f'{label}="{rank}"' for label, rank in {"model_name": "m", **ranks}.items())
    return f"sglang:{name}{{{labels}}} {value}\n".encode()


def test_sglangs_tensor_parallel_ranks_are_one_and_its_data_parallel_ranks_are_summed() -> None:
    page = b"".join(
        sglang("num_running_reqs", running, dp_rank=dp, tp_rank=4 * dp + tp, pp_rank=0)
        + sglang("num_queue_reqs", dp, dp_rank=dp, tp_rank=4 * dp + tp, pp_rank=0)
        + sglang("token_usage", 0.5 * dp, dp_rank=dp, tp_rank=4 * dp + tp, pp_rank=0)
        for dp, running in ((0, 10), (1, 3))
        for tp in range(4)
    )
    assert read_metrics(page) == TelemetryReading(Telemetry(13, 1, 0.25), "sglang")


def test_sglangs_priorities_are_parts_of_the_total_and_not_added_to_it() -> None:
    page = (
        sglang("num_running_reqs", 3, tp_rank=0, priority="")
        + sglang("num_queue_reqs", 7, tp_rank=0, priority="")
        + sglang("num_queue_reqs", 5, tp_rank=0, priority="0")
        + sglang("num_queue_reqs", 2, tp_rank=0, priority="1")
    )
    assert read_metrics(page) == TelemetryReading(Telemetry(3, 7), "sglang")


def test_labels_may_hold_anything() -> None:
    name = r"a}\"b{c,dp_rank=\"7\" 99 \\"
    page = sglang("num_running_reqs", 3, model_name=name, dp_rank=0) + sglang(
        "num_running_reqs", 4, model_name=name, dp_rank=1
    )
    assert read_metrics(page) == TelemetryReading(Telemetry(7, 0), "sglang")


def test_our_own_page_as_the_server_writes_it() -> None:
    stats = [SubserverStats(name, StepCounters(2, 4)) for name in ("small", "large")]
    stats[0].kv_tokens_used, stats[0].kv_tokens_capacity = 30, 40
    stats[1].kv_tokens_used, stats[1].kv_tokens_capacity = 10, 40
    registry = CollectorRegistry()
    registry.register(GroupCollector(lambda: GroupStatus("pair", 2, 5, 8, False, {}, stats)))
    assert read_metrics(generate_latest(registry)) == TelemetryReading(
        Telemetry(5, 2, 0.75), "trserve"
    )


@pytest.mark.parametrize(
    "number", ["NaN", "+Inf", "-Inf", "-1", "1e300", "", "many", "0x10", "1 2 3"]
)
def test_a_number_that_makes_no_sense_is_not_there(number: str) -> None:
    assert read_metrics(f"vllm:num_requests_running {number}\n".encode()) is None
    page = f"vllm:num_requests_running 3\nvllm:num_requests_waiting {number}\n".encode()
    assert read_metrics(page) == TelemetryReading(Telemetry(3, 0), "vllm")
    page = f"vllm:num_requests_running 3\nvllm:kv_cache_usage_perc {number}\n".encode()
    assert read_metrics(page) == TelemetryReading(Telemetry(3, 0), "vllm")


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"\n",
        b"<!doctype html><html><body>vllm:num_requests_running 3</body></html>\n",
        b'{"error": "not found"}',
        b"# TYPE vllm:num_requests_running gauge\n",
        b"vllm:num_requests_running 1",  # cut short: of 17
        b'vllm:num_requests_running{engine="0',
        b"vllm:num_requests_running_total 3\n",
        b"my_vllm:num_requests_running 3\n",
        b"vllm:num_requests_waiting 3\n",
        b"\xff\xfe\x00vllm",
    ],
)
def test_a_page_that_does_not_say_what_runs_is_none(page: bytes) -> None:
    assert read_metrics(page) is None


def test_a_share_above_one_is_no_share() -> None:
    page = b"vllm:num_requests_running 3\nvllm:kv_cache_usage_perc 45.0\n"
    assert read_metrics(page) == TelemetryReading(Telemetry(3, 0), "vllm")


def sensible(reading: TelemetryReading | None) -> bool:
    if reading is None:
        return True
    told = reading.telemetry
    share = told.kv_usage
    return (
        told.running >= 0
        and told.waiting >= 0
        and (share is None or (math.isfinite(share) and 0 <= share <= 1))
    )


@given(st.binary(max_size=300))
def test_garbage_is_never_an_error(page: bytes) -> None:
    assert sensible(read_metrics(page))


@given(
    page=st.sampled_from(pages.PAGES),
    cuts=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 30), st.binary(max_size=12)), max_size=8
    ),
)
def test_a_damaged_page_is_never_an_error(
    page: bytes, cuts: list[tuple[float, int, bytes]]
) -> None:
    for place, length, other in cuts:
        at = int(place * len(page))
        page = page[:at] + other + page[at + length :]
    assert sensible(read_metrics(page))


@given(page=st.sampled_from(pages.PAGES), share=st.floats(0, 1))
def test_what_is_left_of_a_page_cut_short_is_never_more_than_the_page_said(
    page: bytes, share: float
) -> None:
    whole, cut = read_metrics(page), read_metrics(page[: int(share * len(page))])
    assert whole is not None
    if cut is not None:
        assert cut.kind == whole.kind
        assert cut.telemetry.running <= whole.telemetry.running
        assert cut.telemetry.waiting <= whole.telemetry.waiting
