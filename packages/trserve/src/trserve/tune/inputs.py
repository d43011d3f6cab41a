"""What `trserve tune` tunes, from its options: latencies and routing, each from one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trsched.errors import ConfigError
from trsched.plan.config import ProfileModel
from trsched.tuning.group_traffic import GroupTraffic
from trsched.tuning.routing_flow import RoutingFlow, both_sides, checked, one_token_visits
from trserve.tune.latency_profile import LatencyProfile, read_profile
from trserve.tune.metrics_log import MetricsLog, fetch_metrics, read_metrics
from trserve.tune.number_lists import latencies, matrix

_SHORTEST_MS, _LONGEST_MS = 1e-6, 1e9  # beyond, sums and quotients of them lose their meaning


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """What the command line says of latencies and of routing; None and empty: nothing."""

    profile: Path | None
    latency_ms: Sequence[str]
    p: float | None
    q: float | None
    routing: str | None
    commit: str | None
    log: Path | None
    url: str | None
    shared_device: bool | None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is tuned, and where it is from in words."""

    group: GroupTraffic
    latencies_from: str
    routing_from: str


def traffic(options: TrafficOptions) -> Traffic:
    """Raises ConfigError naming the option that is missing, too much or wrong."""
    _exclusive({"--log": options.log, "--url": options.url})
    typed = _typed_flow(options)
    measured = _measured(options)
    log = _log(options)
    source = str(options.log or options.url)
    if measured is not None:
        profile, latencies_from = measured
    elif log is not None:
        profile, latencies_from = LatencyProfile(log.models), source
    else:
        raise ConfigError(
            "--latency-ms",
            "how long do steps take? Give a profile, --latency-ms for each model, or --log",
        )
    models = profile.models
    if typed is not None:
        flow, routing_from = typed
    elif log is not None:
        steps = ", ".join(f"{count} steps of {name}" for name, count in log.steps.items())
        field = "--log" if options.log is not None else "--url"
        flow, routing_from = _in_order(log, models, field), f"{source}: {steps}"
    else:
        raise ConfigError("--p", "how are tokens routed? Give --p, --routing or --log")
    for model in models:
        given = [*model.step_ms, max(_SHORTEST_MS, model.extend_token_ms)]
        if not all(_SHORTEST_MS <= ms <= _LONGEST_MS for ms in given):
            raise ConfigError(
                f"latencies of {model.name}",
                f"expected {_SHORTEST_MS:g} to {_LONGEST_MS:g} ms",
            )
    if len(models) < 2:
        raise ConfigError("models", "tuning takes two models or more")
    if len(flow.routing) != len(models):
        field = "--p" if options.p is not None else "--routing"
        raise ConfigError(field, f"for {len(flow.routing)} models, but there are {len(models)}")
    shared = options.shared_device
    if shared is None:
        shared = profile.measured is not None and profile.measured.shared_device
    return Traffic(GroupTraffic(models, flow, shared), latencies_from, routing_from)


def _exclusive(given: dict[str, object]) -> None:
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ConfigError(names[1], f"cannot be combined with {names[0]}")


def _measured(options: TrafficOptions) -> tuple[LatencyProfile, str] | None:
    if options.profile is not None and options.latency_ms:
        raise ConfigError("--latency-ms", f"the latencies are those of {options.profile} already")
    if options.profile is not None:
        return read_profile(options.profile), str(options.profile)
    if options.latency_ms:
        models = [
            ProfileModel(f"model-{i}", latencies(text, "--latency-ms"))
            for i, text in enumerate(options.latency_ms)
        ]
        return LatencyProfile(models), "the command line"
    return None


def _typed_flow(options: TrafficOptions) -> tuple[RoutingFlow, str] | None:
    _exclusive({"--p": options.p, "--routing": options.routing})
    if options.q is not None and options.p is None:
        raise ConfigError("--q", "needs --p, the rate on the way there")
    if options.commit is not None and options.routing is None:
        raise ConfigError("--commit", "needs --routing: --p and --q say which tokens stand")
    if options.p is not None:
        p = _rate(options.p, "--p")
        if options.q is None:
            return one_token_visits(p), f"p = {p:g}, one token a visit"
        q = _rate(options.q, "--q")
        return both_sides(p, q), f"p = {p:g}, q = {q:g}"
    if options.routing is not None:
        rows = matrix(options.routing, "--routing")
        stand = [[1.0] * len(rows) for _ in rows]
        if options.commit is not None:
            stand = matrix(options.commit, "--commit")
            if len(stand) != len(rows):
                raise ConfigError("--commit", f"expected {len(rows)} rows, as in --routing")
        return checked(RoutingFlow(rows, stand), "--routing"), "the command line"
    return None


def _rate(value: float, field: str) -> float:
    if not 0 < value <= 1:
        raise ConfigError(field, f"must be above 0 and at most 1, not {value:g}")
    return value


def _log(options: TrafficOptions) -> MetricsLog | None:
    if options.log is not None:
        return read_metrics(options.log)
    return fetch_metrics(options.url) if options.url is not None else None


def _in_order(log: MetricsLog, models: Sequence[ProfileModel], field: str) -> RoutingFlow:
    """A profile's models may come in another order than the log's; named by hand, they can't."""
    names, wanted = [model.name for model in log.models], [model.name for model in models]
    if len(names) != len(wanted):
        raise ConfigError(field, f"of {len(names)} models, but there are {len(wanted)} latencies")
    if set(names) != set(wanted):
        return log.flow
    order = [names.index(name) for name in wanted]
    return RoutingFlow(
        [[log.flow.routing[i][j] for j in order] for i in order],
        [[log.flow.committed[i][j] for j in order] for i in order],
    )
