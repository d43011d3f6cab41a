"""Counters of the HTTP side, in a registry of their own together with the group's status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from trsched.shared.counters import GroupStatus
from trserve.server.metrics.group_collector import GroupCollector

_TTFT_BOUNDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_TPOT_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_E2E_BOUNDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 300)


class CountedChoice(Protocol):
    """What is counted of one choice of a response."""

    @property
    def finish_reason(self) -> str | None:
        """Why it ended; None where the client left before."""

    @property
    def tokens_by_model(self) -> Sequence[int]:
        """Tokens that count, in order of the group's models."""

    @property
    def seconds_per_token(self) -> float | None:
        """Mean time from a token to the next; None with fewer than two."""


class HttpMetrics:
    """One per app. No label depends on what clients send."""

    def __init__(self, status: Callable[[], GroupStatus], models: Sequence[str]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(GroupCollector(status))
        self._models = tuple(models)
        registry = self._registry
        self._responses = Counter(
            "trserve_http_responses",
            "HTTP responses by path and status code",
            ["path", "status"],
            registry=registry,
        )
        self._finished = Counter(
            "trserve_choices_finished",
            "Choices of responses by finish reason (abort: the client left)",
            ["finish_reason"],
            registry=registry,
        )
        self._prompt_tokens = Counter(
            "trserve_prompt_tokens", "Tokens of prompts", registry=registry
        )
        self._completion_tokens = Counter(
            "trserve_completion_tokens",
            "Tokens of responses by the model that made them",
            ["model"],
            registry=registry,
        )
        self._ttft = Histogram(
            "trserve_time_to_first_token_seconds",
            "From the request to its first token",
            buckets=_TTFT_BOUNDS,
            registry=registry,
        )
        self._tpot = Histogram(
            "trserve_time_per_output_token_seconds",
            "Mean time from one token of a choice to the next",
            buckets=_TPOT_BOUNDS,
            registry=registry,
        )
        self._e2e = Histogram(
            "trserve_request_duration_seconds",
            "From the request to its last event",
            buckets=_E2E_BOUNDS,
            registry=registry,
        )
        self._by_model = [self._completion_tokens.labels(name) for name in self._models]

    def responded(self, path: str, status: int) -> None:
        """Count one HTTP response; path is the route's, with its parameters unfilled."""
        self._responses.labels(path, str(status)).inc()

    def finished(
        self,
        prompt_tokens: int,
        choices: Sequence[CountedChoice],
        seconds: float,
        ttft: float | None,
    ) -> None:
        """Count one request for text, however it ended.

        seconds: from the request to its last event.
        ttft: seconds from the request to its first token; None if there was none.
        """
        self._prompt_tokens.inc(prompt_tokens)
        self._e2e.observe(seconds)
        if ttft is not None:
            self._ttft.observe(ttft)
        for choice in choices:
            self._finished.labels(choice.finish_reason or "abort").inc()
            for counter, count in zip(self._by_model, choice.tokens_by_model, strict=True):
                counter.inc(count)
            if choice.seconds_per_token is not None:
                self._tpot.observe(choice.seconds_per_token)

    def page(self) -> bytes:
        """The metrics page in Prometheus' text format."""
        return generate_latest(self._registry)
