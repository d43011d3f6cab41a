"""What delayed batching goes by, as Prometheus metrics: what steps did, and what the tuner expects.

`trserve tune --url` reads the counters of this page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from trsched.shared.counters import GroupStatus, TuningStatus


def batching_metrics(status: GroupStatus) -> Iterator[Metric]:
    """Counters always; the tuner's gauges once it knows every model."""
    names = [subserver.name for subserver in status.subservers]
    yield from _counters(status, names)
    if status.tuning is not None:
        yield from _tuning(status.tuning, names)


def _counters(status: GroupStatus, names: Sequence[str]) -> Iterator[Metric]:
    moves = CounterMetricFamily(
        "trserve_subserver_moves",
        "Steps of requests by the model that has the request after them",
        labels=["subserver", "to"],
    )
    tokens = CounterMetricFamily(
        "trserve_subserver_tokens_moved",
        "Steps of requests that committed a token, by the model that has the request after them",
        labels=["subserver", "to"],
    )
    steps = CounterMetricFamily(
        "trserve_subserver_batch_steps",
        "Turns by requests in the batch, without those that took in prompts or recomputed KV",
        labels=["subserver", "size"],
    )
    seconds = CounterMetricFamily(
        "trserve_subserver_batch_seconds",
        "Seconds of the turns counted in trserve_subserver_batch_steps",
        labels=["subserver", "size"],
    )
    for name, subserver in zip(names, status.subservers, strict=True):
        counters = subserver.step_counters
        for to, moved, made in zip(names, counters.moves, counters.tokens, strict=True):
            moves.add_metric([name, to], moved)
            tokens.add_metric([name, to], made)
        for size, (count, took) in enumerate(zip(counters.batches, counters.seconds, strict=True)):
            if count:
                steps.add_metric([name, str(size)], count)
                seconds.add_metric([name, str(size)], took)
    yield from (moves, tokens, steps, seconds)


def _tuning(tuning: TuningStatus, names: Sequence[str]) -> Iterator[Metric]:
    routing = GaugeMetricFamily(
        "trserve_group_routing_probability",
        "Estimated probability that a step ends with its request at a model",
        labels=["subserver", "to"],
    )
    latency = GaugeMetricFamily(
        "trserve_subserver_estimated_step_seconds",
        "Estimated duration of a step by requests in the batch",
        labels=["subserver", "size"],
    )
    tuned = GaugeMetricFamily(
        "trserve_subserver_tuned_threshold",
        "B for the number of requests that the tuner saw last",
        labels=["subserver"],
    )
    alone = GaugeMetricFamily(
        "trserve_group_alone_predicted_tokens_per_second",
        "Predicted speed if one model served all requests by itself",
        labels=["subserver"],
    )
    for i, name in enumerate(names):
        for to, probability in zip(names, tuning.routing[i], strict=True):
            routing.add_metric([name, to], probability)
        for size, seconds in enumerate(tuning.step_seconds[i], start=1):
            latency.add_metric([name, str(size)], seconds)
        tuned.add_metric([name], tuning.thresholds[i])
        alone.add_metric([name], tuning.alone[i])
    yield from (routing, latency, tuned, alone)
    for name, text, value in (
        ("tuned_requests", "Requests that the tuner's thresholds are for", tuning.active),
        (
            "predicted_tokens_per_second",
            "Predicted speed with the tuned thresholds",
            tuning.predicted,
        ),
        (
            "measured_tokens_per_second",
            "Committed tokens a second, over the last seconds",
            tuning.measured,
        ),
    ):
        yield GaugeMetricFamily(f"trserve_group_{name}", text, value=value)
