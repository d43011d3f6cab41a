"""`trcore.why_not`: it names the rules that `assign` filters by, one by one, and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import trcore
from packages.trcore.tests.assign_cases import Case, cases, plain
from trcore import WhyNot

FILTERS = ("needs", "models", "instances", "max_usd", "max_seconds")


def reasons(case: Case, **options: Any) -> Any:
    view = case.on(trcore.InstanceView(case.instances))
    given_ = {name: case.options.get(name) for name in FILTERS} | options
    return trcore.why_not(view, case.prompt_tokens, case.max_tokens, **given_)


def prices_of(case: Case) -> dict[str, Any]:
    rules = trcore.AssignRules(**vars(case.rules))
    usd, seconds = trcore.prices(
        case.on(trcore.InstanceView(case.instances)),
        rules,
        case.weights,
        case.prompt_tokens,
        case.max_tokens,
        case.quality,
        case.length,
        **{name: case.options.get(name) for name in FILTERS},
    )
    return {"usd": usd, "seconds": seconds}


@given(cases())
@settings(max_examples=150, deadline=None)
def test_candidates_of_an_assignment_are_those_without_a_reason(case: Case) -> None:
    prices = prices_of(case)
    done = case.in_core()
    found = reasons(case, **prices)
    above = np.uint8(WhyNot.ABOVE_MAX_USD | WhyNot.ABOVE_MAX_SECONDS)
    for r in range(case.requests):
        candidates = np.isfinite(done.scores[r])
        if (found[r] == 0).any() or not candidates.any():
            assert (candidates == (found[r] == 0)).all()
        else:  # its ceilings were given up
            assert done.counted["relaxed"] > 0
            assert (candidates == ((found[r] & ~above) == 0)).all()


@given(cases())
@settings(max_examples=60, deadline=None)
def test_every_reason_is_told_by_itself(case: Case) -> None:
    prices = prices_of(case)
    done = case.in_core()
    found = reasons(case, **prices)
    c, o = case.columns, case.options
    for r in range(case.requests):
        for i in range(case.instances):
            why = WhyNot(int(found[r, i]))
            room = int(case.prompt_tokens[r]) + int(case.max_tokens[r]) <= c["context_window"][i]
            needs = 0 if o["needs"] is None else int(o["needs"][r])
            assert (WhyNot.DRAINING in why) == c["draining"][i]
            assert (WhyNot.UNHEALTHY in why) == (not c["healthy"][i])
            assert (WhyNot.NO_ROOM in why) == (not room)
            assert (WhyNot.LACKS_CAPABILITY in why) == bool(needs & ~int(c["capabilities"][i]))
            models, instances = o["models"], o["instances"]
            barred = models is not None and not models[r, c["model"][i]]
            assert (WhyNot.MODEL_NOT_ALLOWED in why) == barred
            assert (WhyNot.EXCLUDED in why) == (instances is not None and not instances[r, i])
            usd, seconds = prices["usd"][r, i], prices["seconds"][r, i]
            open_ = c["healthy"][i] and not c["draining"][i] and room
            assert np.isnan(usd) == np.isnan(seconds) == (not open_)
            if i == done.chosen[r]:
                assert (usd, seconds) == tuple(done.terms[r, 4:])
            for price, ceilings, bit in (
                (usd, o["max_usd"], WhyNot.ABOVE_MAX_USD),
                (seconds, o["max_seconds"], WhyNot.ABOVE_MAX_SECONDS),
            ):
                assert (bit in why) == (ceilings is not None and bool(price > ceilings[r]))


def test_without_prices_no_ceiling_counts() -> None:
    case = plain(3, 2)
    case.options = {"max_usd": np.zeros(2), "max_seconds": np.zeros(2)}
    assert not reasons(case).any()
    assert (reasons(case, usd=np.ones((2, 3))) == WhyNot.ABOVE_MAX_USD).all()


def test_a_closed_row_may_hold_anything() -> None:
    case = plain(2, 1)
    case.columns["healthy"][0] = False
    case.columns["model"][0] = 99
    found = reasons(case, models=np.ones((1, 1), np.bool_))
    assert found.tolist() == [[WhyNot.UNHEALTHY | WhyNot.MODEL_NOT_ALLOWED, 0]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("needs", np.zeros(2, np.int32)),
        ("models", np.ones((1, 1), np.bool_)),
        ("instances", np.ones((2, 2), np.bool_)),
        ("usd", np.zeros((1, 3))),
        ("seconds", np.zeros((2, 2))),
        ("max_usd", np.full(2, np.nan)),
        ("max_seconds", np.zeros(1)),
    ],
)
def test_an_argument_is_wrong(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: must "):
        reasons(plain(3, 2), **{name: value})
