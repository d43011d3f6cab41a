"""How to load a server: which of four shapes, made definite before anything is sent."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbalance.simulator.arrivals import gamma, poisson, read_trace
from trsched.errors import ConfigError

_REQUESTS = 100  # where neither their number nor a duration is asked for
_MOST_REQUESTS = 10_000_000


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the command line asks for. Exactly one of rate, clients, trace and burst."""

    rate: float | None = None
    burstiness: float | None = None
    clients: int | None = None
    trace: Path | None = None
    speed: float | None = None
    burst: int | None = None
    requests: int | None = None
    duration: float | None = None
    max_in_flight: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ClosedLoad:
    """Each of `clients` sends when its last response has ended; until so many, or so long."""

    clients: int
    requests: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, eq=False)
class OpenLoad:
    """Requests are sent at their times, whatever the server does.

    at: float64 [N] seconds from the start, ascending.
    input_tokens, output_tokens: float64 [N] as a trace has them, NaN where it doesn't say; None
        without a trace.
    """

    at: NDArray[np.float64]
    max_in_flight: int | None
    input_tokens: NDArray[np.float64] | None = None
    output_tokens: NDArray[np.float64] | None = None

    @property
    def rate(self) -> float | None:
        """Requests a second that are offered; None where all come at once."""
        return float(len(self.at) / self.at[-1]) if self.at[-1] > 0 else None


def plan_load(options: LoadOptions) -> OpenLoad | ClosedLoad:
    """Raises ConfigError naming the flag at fault."""
    _check_shape(options)
    _check_companions(options)
    _check_sizes(options)
    if options.clients is not None:
        requests = options.requests
        if requests is None and options.duration is None:
            requests = _REQUESTS
        return ClosedLoad(options.clients, requests, options.duration)
    if options.burst is not None:
        return OpenLoad(np.zeros(options.burst), options.max_in_flight)
    if options.trace is not None:
        return _traced(options, options.trace)
    return OpenLoad(_drawn(options), options.max_in_flight)


def _check_shape(options: LoadOptions) -> None:
    shapes = {
        "--rate": options.rate,
        "--clients": options.clients,
        "--trace": options.trace,
        "--burst": options.burst,
    }
    given = [flag for flag, value in shapes.items() if value is not None]
    if not given:
        raise ConfigError("--rate", "say how to load: --rate, --clients, --trace or --burst")
    if len(given) > 1:
        raise ConfigError(given[1], f"one shape of load at a time, and there is {given[0]}")


def _check_companions(options: LoadOptions) -> None:
    if options.burstiness is not None and options.rate is None:
        raise ConfigError("--burstiness", "goes with --rate")
    if options.speed is not None and options.trace is None:
        raise ConfigError("--speed", "goes with --trace")
    if options.max_in_flight is not None and options.clients is not None:
        raise ConfigError("--max-in-flight", "clients never have more in flight than there are")
    if options.burst is not None:
        for flag, value in (("--requests", options.requests), ("--duration", options.duration)):
            if value is not None:
                raise ConfigError(flag, "--burst says how many requests there are, all at once")
    for flag, number in (
        ("--rate", options.rate),
        ("--burstiness", options.burstiness),
        ("--speed", options.speed),
        ("--duration", options.duration),
    ):
        if number is not None and not 0 < number < math.inf:
            raise ConfigError(flag, f"must be above 0, not {number}")


def _check_sizes(options: LoadOptions) -> None:
    """What is held in memory before the load begins."""
    for flag, count in (
        ("--requests", options.requests),
        ("--burst", options.burst),
        ("--clients", options.clients),
    ):
        if count is not None and count > _MOST_REQUESTS:
            raise ConfigError(flag, f"at most {_MOST_REQUESTS}, not {count}")


def _drawn(options: LoadOptions) -> NDArray[np.float64]:
    """Poisson or gamma arrivals, so many or for so long."""
    rate, seed, burstiness = options.rate, options.seed, options.burstiness
    assert rate is not None
    if burstiness is None or burstiness == 1:

        def draw(n: int) -> NDArray[np.float64]:
            return poisson(rate, n, seed)
    else:

        def draw(n: int) -> NDArray[np.float64]:
            return gamma(rate, n, seed, burstiness)

    if options.duration is None:
        return draw(options.requests or _REQUESTS)
    return _until(draw, options.duration, options.requests, rate)


def _until(
    draw: Callable[[int], NDArray[np.float64]], seconds: float, most: int | None, rate: float
) -> NDArray[np.float64]:
    """Drawing more continues the same arrivals, so draw until they last long enough."""
    if most is None:
        most = _MOST_REQUESTS
        if rate * seconds > most:
            raise ConfigError("--duration", f"more than {most} requests arrive in that time")
    n = min(most, int(rate * seconds) + 100)
    while len(at := draw(n)) < most and at[-1] < seconds:
        n = min(most, 2 * n)
    if at[0] >= seconds:
        raise ConfigError("--duration", f"no request arrives within {seconds} s at this rate")
    return at[at < seconds]


def _traced(options: LoadOptions, path: Path) -> OpenLoad:
    try:
        trace = read_trace(path, options.requests or sys.maxsize)
    except (OSError, EOFError) as error:
        raise ConfigError(
            "--trace", f"{path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    except ValueError as error:
        raise ConfigError("--trace", str(error)) from error
    at = trace.at / (options.speed or 1.0)
    kept = at < (math.inf if options.duration is None else options.duration)
    if not kept.any():
        raise ConfigError("--trace", f"{path} has no requests")
    return OpenLoad(
        at[kept], options.max_in_flight, trace.prompt_tokens[kept], trace.output_tokens[kept]
    )
