"""Throughput of a group by its thresholds: exact where the Markov chain fits, else simulated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec

import trcore
from trsched.plan.config import ProfileModel
from trserve.tune.routing_flow import RoutingFlow, tokens_read_per_step

Method = Literal["chain", "simulation"]

_CHAIN_REQUESTS = 32
_LARGEST_CHAIN = 20_000  # states; durations are rounded until it fits, see trcore
_SEARCH_TOKENS, _SEARCH_SEED = 20_000, 0
_TOKENS, _SEED = 100_000, 1


class GroupTraffic(msgspec.Struct, frozen=True):
    """Models by their latencies, and how requests go between them.

    shared_device: one model steps at a time.
    """

    models: list[ProfileModel]
    flow: RoutingFlow
    shared_device: bool = False

    def seconds(self, requests: int) -> list[list[float]]:
        """Of each model, a step's latency for batches of 1 … `requests`, reading included."""
        read = tokens_read_per_step(self.flow)
        return [
            [
                (step_ms(model, size) + size * (tokens - 1) * model.extend_token_ms) * 1e-3
                for size in range(1, requests + 1)
            ]
            for model, tokens in zip(self.models, read, strict=True)
        ]


class Choice(msgspec.Struct, frozen=True):
    """Thresholds and what they give; of a simulation, the figure is an estimate."""

    thresholds: list[int]
    tokens_per_s: float
    method: Method


def step_ms(model: ProfileModel, size: int) -> float:
    """A plain decode of `size` requests."""
    return model.step_ms[min(size, len(model.step_ms)) - 1]


def alone(model: ProfileModel, requests: int) -> float:
    """Tokens a second if one model writes everything."""
    return requests / step_ms(model, requests) * 1e3


class Throughput:
    """Of one traffic with `requests` at once, in tokens a second; remembers what it found.

    Two models and up to 32 requests are solved as a Markov chain, all feasible thresholds at once.
    Else thresholds are searched for by short simulations and reported by long ones, with other
    draws than those that picked them, and the same for all.
    """

    def __init__(self, traffic: GroupTraffic, requests: int) -> None:
        flow = traffic.flow
        self._ones = [1] * len(traffic.models)
        self._args = (flow.routing, flow.committed, traffic.seconds(requests), requests)
        self._exclusive = traffic.shared_device
        self._known: dict[tuple[int, ...], float] = {}
        self._method: Method = "simulation"
        if len(traffic.models) == 2 and requests <= _CHAIN_REQUESTS:
            with suppress(trcore.StateSpaceTooLargeError):
                self.best, self.compared = self._solved()
                return
        self.best, self.compared = self._searched()

    @property
    def eager(self) -> Choice:
        """Every batch starts at once."""
        return self.of(self._ones)

    def of(self, thresholds: Sequence[int]) -> Choice:
        """Of thresholds that cannot deadlock."""
        key = tuple(thresholds)
        if key not in self._known:
            assert self._method == "simulation"  # the chain was solved for all
            found = trcore.simulate(
                *self._args, key, tokens=_TOKENS, seed=_SEED, exclusive=self._exclusive
            )
            self._known[key] = found.throughput
        return Choice(list(key), self._known[key], self._method)

    def _solved(self) -> tuple[Choice, int]:
        found = trcore.best_thresholds(
            *self._args, max_states=_LARGEST_CHAIN, exclusive=self._exclusive
        )
        self._method = "chain"
        thresholds, throughputs = found.candidates
        for key, throughput in zip(thresholds.tolist(), throughputs.tolist(), strict=True):
            self._known[tuple(key)] = throughput
        return self.of(found.thresholds), len(self._known)

    def _searched(self) -> tuple[Choice, int]:
        found = trcore.search_thresholds(
            *self._args, tokens=_SEARCH_TOKENS, seed=_SEARCH_SEED, exclusive=self._exclusive
        )
        best = max(self.eager, self.of(found.thresholds), key=lambda choice: choice.tokens_per_s)
        return best, len(found.candidates[0])
