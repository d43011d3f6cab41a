"""What a server's Prometheus page says of its load, whichever server it is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rbalance import Telemetry

_MOST = 1e9  # above it the number is no count of requests


@dataclass(frozen=True, slots=True)
class TelemetryReading:
    """One page's figures.

    telemetry: for the balancer.
    kind: the server's, as its page shows: vllm, sglang, trtllm, trserve, llamacpp, trgateway.
    """

    telemetry: Telemetry
    kind: str


@dataclass(frozen=True, slots=True)
class _Server:
    """Names of its metrics, `:` written `_`.

    running: requests that run.
    waiting: requests that wait.
    kv: shares from 0 to 1, of which the first that is there counts.
    kv_tokens: used and capacity, of a server that shows no share.
    """

    running: str
    waiting: str
    kv: tuple[str, ...] = ()
    kv_tokens: tuple[str, str] | None = None


_SERVERS = {
    "vllm": _Server(
        "vllm_num_requests_running",
        "vllm_num_requests_waiting",
        ("vllm_kv_cache_usage_perc", "vllm_gpu_cache_usage_perc"),
    ),
    "sglang": _Server("sglang_num_running_reqs", "sglang_num_queue_reqs", ("sglang_token_usage",)),
    "trtllm": _Server(
        "trtllm_num_requests_running",
        "trtllm_num_requests_waiting",
        ("trtllm_kv_cache_utilization",),
    ),
    "trserve": _Server(
        "trserve_group_active_requests",
        "trserve_group_queued_requests",
        kv_tokens=("trserve_subserver_kv_used_tokens", "trserve_subserver_kv_capacity_tokens"),
    ),
    "llamacpp": _Server(
        "llamacpp_requests_processing",
        "llamacpp_requests_deferred",
        ("llamacpp_kv_cache_usage_ratio",),
    ),
    "trgateway": _Server("trgateway_instance_running", "trgateway_instance_waiting"),
}
_NAMES = tuple(
    name
    for server in _SERVERS.values()
    for name in (server.running, server.waiting, *server.kv, *(server.kv_tokens or ()))
)

# A whole line, for a page that was cut short ends in half a number. It begins with a fixed
# character, which is what lets the search skip from line to line.
_SAMPLE = re.compile(
    rb"\n(%s)(?:\{([^\n]*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t\r]*(?=\n)"
    % b"|".join(name.replace("_", "[_:]", 1).encode() for name in _NAMES)
)
_LABEL = re.compile(rb'(?:^|,)[ \t]*(\w+)="((?:[^"\\]|\\.)*)"')

_Series = Mapping[bytes, float]


def read_metrics(page: bytes) -> TelemetryReading | None:
    """Requests running and waiting and KV usage; None if the page doesn't say how many run.

    Series of a metric that are about different requests (vLLM's engines, SGLang's data-parallel
    replicas, a gateway's instances) are summed. Shares of KV memory are averaged over them; of a
    token-routed group's models the fullest counts, which is what holds requests up. A number that
    makes no sense (NaN, negative, a share above 1) is as if it weren't there. Never raises.
    """
    found: defaultdict[str, dict[bytes, float]] = defaultdict(dict)
    for name, labels, text in _SAMPLE.findall(b"\n" + page):
        value = _number(text)
        if value is None:
            continue
        series = found[name.decode().replace(":", "_")]
        if name.startswith(b"sglang"):
            replica = _replica(labels)
            series[replica] = max(value, series.get(replica, 0.0))
        else:
            series[labels] = value
    for kind, server in _SERVERS.items():
        running = found.get(server.running)
        if running:
            waiting = found.get(server.waiting, {})
            told = Telemetry(_count(running), _count(waiting), _kv_usage(server, found))
            return TelemetryReading(told, kind)
    return None


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _MOST else None


def _replica(labels: bytes) -> bytes:
    """Which of SGLang's data-parallel replicas a sample is about.

    Of a replica's samples the largest counts: its ranks (tp_rank, pp_rank, moe_ep_rank) hold the
    same requests, and each may report them; and beside a total there may be its parts by priority.
    """
    given: dict[bytes, bytes] = dict(_LABEL.findall(labels))
    return given.get(b"dp_rank", b"")


def _count(series: _Series) -> int:
    return round(sum(series.values()))


def _kv_usage(server: _Server, found: Mapping[str, _Series]) -> float | None:
    for name in server.kv:
        shares = [value for value in found.get(name, {}).values() if value <= 1]
        if shares:
            return sum(shares) / len(shares)
    if server.kv_tokens is None:
        return None
    used, capacity = (found.get(name, {}) for name in server.kv_tokens)
    shares = [used[at] / most for at, most in capacity.items() if most and at in used]
    return min(1.0, max(shares)) if shares else None
