"""Batches for `trcore.assign` of every kind: few values, so that ties are common, and bad ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import trcore
from packages.trcore.tests.reference_assign import (
    COLUMNS,
    Array,
    PlainRules,
    PlainView,
    reference_assign,
)

NEVER = (np.nan, np.inf, -np.inf)
WEIGHTS = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.5, 0.3, 0.2), (1 / 3,) * 3]
COUNTS = ("unassigned", "relaxed", "quality_priors", "length_priors", "tpot_priors")


@dataclass
class Written:
    """All that an assignment writes."""

    chosen: Array
    tokens: Array
    terms: Array
    scores: Array
    counted: dict[str, int]
    view: Any


@dataclass
class Case:
    """Columns of a view, and a batch."""

    columns: dict[str, Array]
    rules: PlainRules
    weights: Any
    prompt_tokens: Array
    max_tokens: Array
    quality: Array
    length: Array
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def instances(self) -> int:
        return len(self.columns["model"])

    @property
    def requests(self) -> int:
        return len(self.prompt_tokens)

    def on(self, view: Any) -> Any:
        """The view, filled."""
        for name, values in self.columns.items():
            getattr(view, name)[:] = values
        return view

    def _run(self, assign: Any, view: Any, rules: Any, options: dict[str, Any]) -> Written:
        r, i = self.requests, self.instances
        chosen, tokens = np.full(r, -9, np.int32), np.full(r, -9, np.int32)
        terms, scores = np.full((r, 6), -9.0), np.full((r, i), -9.0)
        batch = (self.prompt_tokens, self.max_tokens, self.quality, self.length)
        counted = assign(
            view,
            rules,
            self.weights,
            *batch,
            chosen,
            tokens,
            terms=terms,
            scores=scores,
            **{**self.options, **options},
        )
        counts = {name: getattr(counted, name) for name in COUNTS}
        return Written(chosen, tokens, terms, scores, counts, view)

    def in_core(self, **options: Any) -> Written:
        rules = trcore.AssignRules(
            self.rules.prior_quality,
            self.rules.prior_length,
            quality_norm=self.rules.quality_norm,
            order=self.rules.order,
            on_no_candidate=self.rules.on_no_candidate,
        )
        view = self.on(trcore.InstanceView(self.instances))
        return self._run(trcore.assign, view, rules, options)

    def in_python(self, **options: Any) -> Written:
        view = self.on(PlainView(self.instances))
        return self._run(reference_assign, view, self.rules, options)


def same(core: Written, python: Written) -> None:
    """Nothing differs, in no bit."""
    assert core.counted == python.counted
    assert core.chosen.tolist() == python.chosen.tolist()
    assert core.tokens.tolist() == python.tokens.tolist()
    np.testing.assert_array_equal(core.scores, python.scores)
    np.testing.assert_array_equal(core.terms, python.terms)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(core.view, name), getattr(python.view, name), name)


def of(*few: float, more: st.SearchStrategy[float] | None = None) -> st.SearchStrategy[float]:
    """Mostly one of a few values."""
    return st.one_of(st.sampled_from(few), more) if more is not None else st.sampled_from(few)


def counts(most: int) -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from([0, 1, 2]), st.integers(-1, most))


def masks(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(), arrays(np.bool_, shape, elements=st.sampled_from([True, True, False]))
    )


@st.composite
def views(draw: st.DrawFn, instances: int, models: int) -> dict[str, Array]:
    """Columns in which anything may stand that is allowed in an open row."""
    price = of(0.0, 0.06, 0.4, more=st.floats(0, 100))
    pending = of(0.0, 64.0, 500.0, -3.0, np.nan, np.inf, more=st.integers(0, 10**6).map(float))
    elements: dict[str, st.SearchStrategy[Any]] = {
        "model": st.integers(0, models - 1),
        "input_price": price,
        "output_price": price,
        "tpot_s": of(0.0123, 0.0474, *NEVER, -1.0, more=st.floats(0, 1e6)),
        "prior_tpot_s": of(0.0123, 0.03, more=st.floats(1e-9, 1e9)),
        "prefill_rate": of(0.0, 4000.0, more=st.floats(1e-3, 1e6)),
        "slots": counts(9),
        "running": counts(9),
        "waiting": of(0, 0, more=st.integers(-1, 9)),
        "pending_decode": pending,
        "pending_prefill": pending,
        "last_assigned": st.integers(0, 5),
        "healthy": st.sampled_from([True, True, True, False]),
        "draining": st.sampled_from([False, False, False, True]),
        "context_window": st.sampled_from([2048, 2048, 128, 0]),
        "capabilities": st.sampled_from([7, 3, 0]),
    }
    shape = (instances,)
    return {
        name: draw(arrays(kind, shape, elements=elements[name])) for name, kind in COLUMNS.items()
    }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to nine instances of three models, up to six requests."""
    instances, models = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    requests = draw(st.integers(0, 6))
    each, table = (requests,), (requests, models)
    quality = of(0.125, 0.5, 0.875, *NEVER, more=st.floats(-1, 1, width=32))
    length = of(32.0, 100.5, 4000.0, *NEVER, -5.0, 0.0, more=st.floats(0, 2**20, width=32))
    ceiling = of(np.inf, 0.0, 1e-5, 1.0, more=st.floats(0, 1e3))
    rows = st.lists(st.sampled_from(WEIGHTS), min_size=requests, max_size=requests)
    return Case(
        columns=draw(views(instances, models)),
        rules=PlainRules(
            draw(st.lists(st.floats(0, 1), min_size=models, max_size=models)),
            draw(st.lists(st.floats(0.5, 9000), min_size=models, max_size=models)),
            draw(st.sampled_from(["none", "minmax"])),
            draw(st.sampled_from(["lpt", "arrival"])),
            draw(st.sampled_from(["fail", "cheapest", "fastest"])),
        ),
        weights=draw(
            st.sampled_from(WEIGHTS) | rows.map(lambda w: np.array(w, np.float64).reshape(-1, 3))
        ),
        prompt_tokens=draw(
            arrays(np.int32, each, elements=of(0, 50, 200, more=counts(1500)).map(abs))
        ),
        max_tokens=draw(arrays(np.int32, each, elements=of(16, 512, more=st.integers(1, 2000)))),
        quality=draw(arrays(np.float32, table, elements=quality)),
        length=draw(arrays(np.float32, table, elements=length)),
        options={
            "needs": draw(st.none() | arrays(np.uint32, each, elements=st.sampled_from([0, 1, 4]))),
            "models": draw(masks(table)),
            "instances": draw(masks((requests, instances))),
            "max_usd": draw(st.none() | arrays(np.float64, each, elements=ceiling)),
            "max_seconds": draw(st.none() | arrays(np.float64, each, elements=ceiling)),
            "commit": draw(st.booleans()),
        },
    )


def plain(instances: int, requests: int, models: int = 1, seed: int = 0) -> Case:
    """Nothing special: random instances and requests, no filter, weights all equal."""
    rng = np.random.default_rng(seed)
    model = (np.arange(instances) % models).astype(np.int32)
    price = rng.uniform(0.05, 0.4, models)
    columns: dict[str, Array] = {
        "model": model,
        "input_price": price[model],
        "output_price": price[model],
        "tpot_s": rng.uniform(0.01, 0.05, instances),
        "prior_tpot_s": np.full(instances, 0.02),
        "slots": np.full(instances, 8),
        "running": rng.integers(0, 12, instances),
        "waiting": rng.integers(0, 2, instances),
        "pending_decode": rng.integers(0, 4000, instances),
        "healthy": np.ones(instances),
        "context_window": np.full(instances, 4096),
    }
    return Case(
        columns,
        PlainRules([0.5] * models, [200.0] * models),
        (1 / 3, 1 / 3, 1 / 3),
        rng.integers(1, 500, requests).astype(np.int32),
        np.full(requests, 1024, np.int32),
        rng.uniform(0, 1, (requests, models)).astype(np.float32),
        rng.uniform(20, 600, (requests, models)).astype(np.float32),
    )
