"""`trcore.assign` in plain Python: one float at a time, in the order that the core keeps to.

It checks nothing and is slow; it says what is right, to the last bit of every score.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

COLUMNS: dict[str, type[np.generic]] = {
    "model": np.int32,
    "input_price": np.float64,
    "output_price": np.float64,
    "tpot_s": np.float64,
    "prior_tpot_s": np.float64,
    "prefill_rate": np.float64,
    "slots": np.int32,
    "running": np.int32,
    "waiting": np.int32,
    "pending_decode": np.float64,
    "pending_prefill": np.float64,
    "last_assigned": np.int64,
    "healthy": np.bool_,
    "draining": np.bool_,
    "context_window": np.int32,
    "capabilities": np.uint32,
}


class PlainView:
    """The columns of an `InstanceView` in numpy's own memory."""

    def __init__(self, instances: int) -> None:
        self.instances = instances
        for name, kind in COLUMNS.items():
            setattr(self, name, np.zeros(instances, kind))
        self.tpot_s: Array
        self.tpot_s[:] = np.nan

    def __len__(self) -> int:
        return self.instances


@dataclass(frozen=True)
class PlainRules:
    """`AssignRules`, to be read."""

    prior_quality: Sequence[float]
    prior_length: Sequence[float]
    quality_norm: Literal["none", "minmax"] = "none"
    order: Literal["lpt", "arrival"] = "lpt"
    on_no_candidate: Literal["fail", "cheapest", "fastest"] = "fail"


@dataclass
class PlainAssigned:
    """`Assigned`, to be counted up."""

    unassigned: int = 0
    relaxed: int = 0
    quality_priors: int = 0
    length_priors: int = 0
    tpot_priors: int = 0


@dataclass
class Instance:
    """One open instance while a batch is assigned."""

    index: int
    model: int
    input_usd: float
    output_usd: float
    tpot: float
    slots: int
    running: int
    waiting: int
    pending_decode: float
    pending_prefill: float
    prefill_s: float
    last: int
    window: int
    capabilities: int

    def backlog(self) -> float:
        """Tokens that each of its requests has still to generate before the next one's turn."""
        if self.running < self.slots and self.waiting == 0:
            return 0.0
        return self.pending_decode / max(self.running, 1)


@dataclass
class Request:
    """One request with its predictions by model, mended."""

    index: int
    prompt: int
    most: int
    weights: tuple[float, float, float]
    quality: list[float]
    length: list[float]
    needs: int = 0
    models: list[bool] | None = None
    instances: list[bool] | None = None
    max_usd: float = math.inf
    max_seconds: float = math.inf

    def usd(self, at: Instance) -> float:
        return self.prompt * at.input_usd + self.length[at.model] * at.output_usd

    def seconds(self, at: Instance) -> float:
        decode = at.tpot * (at.backlog() + self.length[at.model])
        return decode + (at.pending_prefill + self.prompt) * at.prefill_s

    def fits(self, at: Instance) -> bool:
        """Whether nothing but a ceiling can be against it."""
        return (
            self.prompt + self.most <= at.window
            and at.capabilities & self.needs == self.needs
            and (self.models is None or self.models[at.model])
            and (self.instances is None or self.instances[at.index])
        )

    def within(self, at: Instance) -> bool:
        return self.usd(at) <= self.max_usd and self.seconds(at) <= self.max_seconds


@dataclass
class Scored:
    """A candidate with its terms."""

    at: Instance
    usd: float
    seconds: float
    terms: list[float] = field(default_factory=list)


def falling_term(value: float, values: list[float]) -> float:
    """1 - value / max, or 1 where all are equal."""
    return 1.0 if max(values) == min(values) else 1.0 - value / max(values)


def quality_term(value: float, values: list[float], norm: str) -> float:
    if norm == "none":
        return value
    low, high = min(values), max(values)
    return 1.0 if low == high else (value - low) / (high - low)


def score(request: Request, candidates: list[Instance], norm: str) -> list[Scored]:
    """Every candidate's quality, cost and latency terms, and its score."""
    scored = [Scored(at, request.usd(at), request.seconds(at)) for at in candidates]
    usd, seconds = [c.usd for c in scored], [c.seconds for c in scored]
    qualities = [request.quality[at.model] for at in candidates]
    w_qual, w_cost, w_lat = request.weights
    for candidate, quality in zip(scored, qualities, strict=True):
        q = quality_term(quality, qualities, norm)
        c = falling_term(candidate.usd, usd)
        t = falling_term(candidate.seconds, seconds)
        candidate.terms = [q, c, t, w_qual * q + w_cost * c + w_lat * t]
    return scored


def choose(
    request: Request, instances: list[Instance], rules: PlainRules
) -> tuple[Scored | None, list[Scored], bool]:
    """The chosen one, all candidates, and whether the ceilings were given up."""
    fitting = [at for at in instances if request.fits(at)]
    candidates = [at for at in fitting if request.within(at)]
    relaxed = not candidates and bool(fitting) and rules.on_no_candidate != "fail"
    scored = score(request, fitting if relaxed else candidates, rules.quality_norm)
    if not scored:
        return None, scored, False

    def preference(of: Scored) -> float:
        if not relaxed:
            return -of.terms[3]
        return of.usd if rules.on_no_candidate == "cheapest" else of.seconds

    best = min(
        scored,
        key=lambda of: (preference(of), of.at.running + of.at.waiting, of.at.last, of.at.index),
    )
    return best, scored, relaxed


def account(tokens: float) -> float:
    """What is below 0 or no number counts as nothing."""
    return min(tokens, 2.0**53) if tokens > 0 else 0.0


def open_instances(view: Any, counted: PlainAssigned) -> list[Instance]:
    """The rows that may be given something, as the batch sees them."""
    found = []
    for i in range(len(view)):
        if not view.healthy[i] or view.draining[i]:
            continue
        tpot = float(view.tpot_s[i])
        if not math.isfinite(tpot):
            tpot = float(view.prior_tpot_s[i])
            counted.tpot_priors += 1
        rate = float(view.prefill_rate[i])
        found.append(
            Instance(
                index=i,
                model=int(view.model[i]),
                input_usd=float(view.input_price[i]) * 1e-6,
                output_usd=float(view.output_price[i]) * 1e-6,
                tpot=min(max(tpot, 1e-3), 1e3),
                slots=int(view.slots[i]),
                running=max(int(view.running[i]), 0),
                waiting=max(int(view.waiting[i]), 0),
                pending_decode=account(float(view.pending_decode[i])),
                pending_prefill=account(float(view.pending_prefill[i])),
                prefill_s=1.0 / rate if rate > 0 else 0.0,
                last=int(view.last_assigned[i]),
                window=int(view.context_window[i]),
                capabilities=int(view.capabilities[i]),
            )
        )
    return found


def mended(values: Array, priors: Sequence[float]) -> tuple[list[float], int]:
    """One request's predictions with priors for bad ones, and how many those were."""
    good = [math.isfinite(v) for v in values.tolist()]
    pairs = zip(values.tolist(), priors, good, strict=True)
    return [v if fine else float(prior) for v, prior, fine in pairs], good.count(False)


def total(values: list[float]) -> float:
    """From left to right, which `sum` isn't bound to."""
    return functools.reduce(operator.add, values)


def reference_assign(
    view: Any,
    rules: PlainRules,
    weights: Any,
    prompt_tokens: Array,
    max_tokens: Array,
    quality: Array,
    length: Array,
    chosen: Array,
    tokens: Array,
    *,
    needs: Array | None = None,
    models: Array | None = None,
    instances: Array | None = None,
    max_usd: Array | None = None,
    max_seconds: Array | None = None,
    terms: Array | None = None,
    scores: Array | None = None,
    commit: bool = True,
) -> PlainAssigned:
    """See `trcore.assign`."""
    counted = PlainAssigned()
    pool = open_instances(view, counted)
    w = np.broadcast_to(np.asarray(weights, np.float64), (len(prompt_tokens), 3)).tolist()
    requests = []
    for r in range(len(prompt_tokens)):
        most = int(max_tokens[r])
        qualities, bad = mended(quality[r], rules.prior_quality)
        counted.quality_priors += bad
        lengths, bad = mended(length[r], rules.prior_length)
        counted.length_priors += bad
        requests.append(
            Request(
                index=r,
                prompt=int(prompt_tokens[r]),
                most=most,
                weights=tuple(w[r]),
                quality=qualities,
                length=[min(max(v, 1.0), float(most)) for v in lengths],
                needs=0 if needs is None else int(needs[r]),
                models=None if models is None else models[r].tolist(),
                instances=None if instances is None else instances[r].tolist(),
                max_usd=math.inf if max_usd is None else float(max_usd[r]),
                max_seconds=math.inf if max_seconds is None else float(max_seconds[r]),
            )
        )
    if rules.order == "lpt":
        requests.sort(key=lambda request: -total(request.length))  # stable

    sequence = int(max(view.last_assigned, default=0))
    for request in requests:
        r = request.index
        best, scored, relaxed = choose(request, pool, rules)
        chosen[r], tokens[r] = -1, 0
        if terms is not None:
            terms[r] = np.nan
        if scores is not None:
            scores[r] = -np.inf
            for of in scored:
                scores[r, of.at.index] = of.terms[3]
        if best is None:
            counted.unassigned += 1
            continue
        counted.relaxed += relaxed
        at = best.at
        chosen[r], tokens[r] = at.index, round(request.length[at.model])
        if terms is not None:
            terms[r] = [*best.terms, best.usd, best.seconds]
        sequence += 1
        at.last = sequence
        at.waiting += 1
        at.pending_prefill += request.prompt
        at.pending_decode += int(tokens[r])
        if commit:
            view.waiting[at.index] += 1
            view.pending_prefill[at.index] += request.prompt
            view.pending_decode[at.index] += int(tokens[r])
            view.last_assigned[at.index] = sequence
    return counted
