"""What a server's `/metrics` page says of routing and latencies, as `trserve tune` reads it."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from pathlib import Path

import msgspec

from trsched.errors import ConfigError
from trsched.plan.config import ProfileModel
from trsched.tuning.routing_flow import RoutingFlow, checked
from trserve.tune.latency_measurement import by_size

_MOVES = "trserve_subserver_moves_total"
_TOKENS = "trserve_subserver_tokens_moved_total"
_STEPS = "trserve_subserver_batch_steps_total"
_SECONDS = "trserve_subserver_batch_seconds_total"
_BATCH_SIZE = re.compile("[1-9][0-9]{0,4}")
_LABELS = {
    _MOVES: ("subserver", "to"),
    _TOKENS: ("subserver", "to"),
    _STEPS: ("subserver", "size"),
    _SECONDS: ("subserver", "size"),
}


Counts = defaultdict[tuple[str, str], float]


class MetricsLog(msgspec.Struct, frozen=True):
    """A server's life so far.

    steps: requests' steps that were counted, by model.

    models: mean latencies by batch size, what was read in these steps included. Sizes that did not
    occur are interpolated.
    """

    models: list[ProfileModel]
    flow: RoutingFlow
    steps: dict[str, int]


def read_metrics(path: Path) -> MetricsLog:
    """A saved page. Raises ConfigError naming `--log`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError("--log", f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError("--log", f"{path}: not UTF-8 text ({error.reason})") from error
    return parse_metrics(text, "--log")


def fetch_metrics(url: str) -> MetricsLog:
    """A running server's page. Raises ConfigError naming `--url`."""
    import httpx

    page = url.rstrip("/").removesuffix("/metrics").removesuffix("/v1") + "/metrics"
    try:
        response = httpx.get(page, timeout=10.0)
        response.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigError("--url", f"{page}: {str(error) or type(error).__name__}") from error
    return parse_metrics(response.text, "--url")


def parse_metrics(text: str, field: str) -> MetricsLog:
    """Raises ConfigError naming `field` where the page says too little."""
    counted = _samples(text, field)
    names = list(dict.fromkeys(name for name, _ in counted[_MOVES]))
    for name, other in counted[_MOVES]:
        if other not in names:
            raise ConfigError(field, f"{name!r} hands over to {other!r}, which made no step")
    moves, tokens = counted[_MOVES], counted[_TOKENS]
    totals = {name: sum(moves[name, other] for other in names) for name in names}
    for name, total in totals.items():
        if not total > 0:
            raise ConfigError(field, f"{name!r} made no step yet, so its routing is not known")
    flow = RoutingFlow(
        [[moves[name, other] / totals[name] for other in names] for name in names],
        [[_share(tokens[name, other], moves[name, other]) for other in names] for name in names],
    )
    models = [_model(name, counted, field) for name in names]
    return MetricsLog(
        models, checked(flow, field), {name: int(total) for name, total in totals.items()}
    )


def _samples(text: str, field: str) -> dict[str, Counts]:
    """Our counters by name, then by their two labels."""
    from prometheus_client.parser import text_string_to_metric_families

    counted: dict[str, Counts] = {name: defaultdict(float) for name in _LABELS}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in counted:
                    if not 0 <= sample.value < math.inf:
                        raise ValueError(f"{sample.name} is {sample.value}")
                    first, second = (sample.labels[label] for label in _LABELS[sample.name])
                    counted[sample.name][first, second] += sample.value
    except (ValueError, KeyError) as error:
        raise ConfigError(field, f"not a page of Prometheus metrics: {error}") from error
    for name, samples in counted.items():
        if not samples:
            raise ConfigError(field, f"no {name} in it: is it /metrics of a trserve that served?")
    return counted


def _model(name: str, counted: dict[str, Counts], field: str) -> ProfileModel:
    latencies = []
    for (model, size), steps in counted[_STEPS].items():
        if model == name and steps > 0:
            if not _BATCH_SIZE.fullmatch(size):
                raise ConfigError(field, f"{_STEPS}: {size!r} is no batch size")
            latencies.append((int(size), counted[_SECONDS][name, size] / steps * 1e3))
    if not latencies or not all(0 < ms < math.inf for _, ms in latencies):
        raise ConfigError(field, f"the latencies of {name!r} are not in it ({_SECONDS})")
    return ProfileModel(name, by_size(latencies))


def _share(part: float, whole: float) -> float:
    """Of at most 1: the page of a busy server may have a token without its move."""
    return min(1.0, part / whole) if whole else 0.0
