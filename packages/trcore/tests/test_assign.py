"""`trcore.assign`: the same bits as the plain reference, and what must hold of any assignment."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import trcore
from packages.trcore.tests.assign_cases import Case, cases, plain, same
from packages.trcore.tests.ticks import ticks_during


@given(cases())
@settings(max_examples=150, deadline=None)
def test_equals_the_reference_to_the_last_bit(case: Case) -> None:
    same(case.in_core(), case.in_python())


@pytest.mark.parametrize("instances", [13, 100, 301])
@pytest.mark.parametrize("norm", ["none", "minmax"])
def test_equals_the_reference_at_full_size(instances: int, norm: Literal["none", "minmax"]) -> None:
    """Sizes from which the GIL is released, and that are no multiple of a vector."""
    case = plain(instances, 32, models=4, seed=instances)
    case.rules = replace(case.rules, quality_norm=norm)
    same(case.in_core(), case.in_python())


@given(cases())
@settings(max_examples=60, deadline=None)
def test_only_candidates_are_chosen(case: Case) -> None:
    done = case.in_core()
    c, o = case.columns, case.options
    for r, i in enumerate(done.chosen):
        if i < 0:
            assert done.tokens[r] == 0
            assert np.isnan(done.terms[r]).all()
            continue
        assert c["healthy"][i]
        assert not c["draining"][i]
        assert case.prompt_tokens[r] + case.max_tokens[r] <= c["context_window"][i]
        assert o["needs"] is None or c["capabilities"][i] & o["needs"][r] == o["needs"][r]
        assert o["models"] is None or o["models"][r, c["model"][i]]
        assert o["instances"] is None or o["instances"][r, i]
        if done.counted["relaxed"] == 0:
            assert o["max_usd"] is None or done.terms[r, 4] <= o["max_usd"][r]
            assert o["max_seconds"] is None or done.terms[r, 5] <= o["max_seconds"][r]
            assert done.scores[r].max() == done.scores[r, i] == done.terms[r, 3]
    assert done.counted["unassigned"] == (done.chosen < 0).sum()


@given(cases())
@settings(max_examples=60, deadline=None)
def test_accounts_add_up_and_are_given_back_exactly(case: Case) -> None:
    for name in ("pending_decode", "pending_prefill"):
        case.columns[name] = np.nan_to_num(case.columns[name], nan=0, posinf=9e6, neginf=0)
    done = case.in_core(commit=True)
    for i in range(case.instances):
        mine = done.chosen == i
        for name, added in (
            ("waiting", mine.sum()),
            ("pending_decode", done.tokens[mine].sum()),
            ("pending_prefill", case.prompt_tokens[mine].sum()),
            ("running", 0),
        ):
            assert getattr(done.view, name)[i] == case.columns[name][i] + added, name
    for r, i in enumerate(done.chosen.tolist()):
        if i >= 0:
            prompt, tokens = int(case.prompt_tokens[r]), int(done.tokens[r])
            done.view.add(i, running=1, waiting=-1, pending_prefill=-prompt)
            done.view.add(i, running=-1, pending_decode=-tokens)
    for name in ("running", "waiting", "pending_decode", "pending_prefill"):
        assert getattr(done.view, name).tolist() == case.columns[name].tolist()


@given(cases())
@settings(max_examples=40, deadline=None)
def test_without_commit_the_view_stays_and_the_answer_is_the_same(case: Case) -> None:
    tried, done = case.in_core(commit=False), case.in_core(commit=True)
    assert tried.chosen.tolist() == done.chosen.tolist()
    np.testing.assert_array_equal(tried.scores, done.scores)
    for name, values in case.columns.items():
        np.testing.assert_array_equal(getattr(tried.view, name), values)


@given(cases(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_permuted_instances_permute_the_answer(case: Case, random: object) -> None:
    """But for the last tie, which the place decides: here all differ in `last_assigned`."""
    order = list(range(case.instances))
    random.shuffle(order)  # type: ignore[attr-defined]
    case.columns["last_assigned"] = np.arange(case.instances, dtype=np.int64)
    masked = case.options["instances"]
    options = {**case.options, "instances": None if masked is None else masked[:, order].copy()}
    columns = {name: values[order] for name, values in case.columns.items()}
    there = replace(case, columns=columns, options=options).in_core()
    expected = [order[i] if i >= 0 else -1 for i in there.chosen]
    assert case.in_core().chosen.tolist() == expected


@given(cases())
@settings(max_examples=60, deadline=None)
def test_weights_of_quality_alone_pick_the_best_quality(case: Case) -> None:
    case.weights = (1.0, 0.0, 0.0)
    case.rules = replace(case.rules, on_no_candidate="fail")
    done = case.in_core()
    for r, i in enumerate(done.chosen):
        if i < 0:
            continue
        priors = np.asarray(case.rules.prior_quality)
        row = case.quality[r].astype(np.float64)
        quality = np.where(np.isfinite(row), row, priors)[case.columns["model"]]
        assert quality[i] == quality[np.isfinite(done.scores[r])].max()


@given(st.integers(2, 40), st.integers(1, 6), st.sampled_from([1.0, 0.99]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_better_cheaper_and_faster_always_wins(
    instances: int, requests: int, price: float, seed: int
) -> None:
    case = plain(instances, requests, models=instances, seed=seed)
    at = seed % instances
    for name in ("input_price", "output_price", "tpot_s"):
        case.columns[name][at] = price * case.columns[name].min()
    for name in ("running", "waiting", "pending_decode"):
        case.columns[name][at] = 0
    case.columns["slots"][at] = 10**6
    case.quality[:, at] = 1.5
    case.length[:, at] = case.length.min()
    for request in range(requests):  # each by itself: a first one makes it slower for the next
        one = replace(
            case,
            prompt_tokens=case.prompt_tokens[request : request + 1],
            max_tokens=case.max_tokens[:1],
            quality=case.quality[request : request + 1],
            length=case.length[request : request + 1],
        )
        assert one.in_core().chosen.tolist() == [at]


@given(cases())
@settings(max_examples=60, deadline=None)
def test_bad_predictions_are_as_good_as_their_priors(case: Case) -> None:
    done = case.in_core()
    bad = [(~np.isfinite(values)).sum() for values in (case.quality, case.length)]
    assert [done.counted["quality_priors"], done.counted["length_priors"]] == bad
    assert not np.isnan(done.scores).any()

    assume(sum(bad) or done.counted["tpot_priors"])
    mended = replace(case, columns=dict(case.columns))
    tpot = case.columns["tpot_s"]
    mended.columns["tpot_s"] = np.where(np.isfinite(tpot), tpot, case.columns["prior_tpot_s"])
    assert replace(mended).in_core().chosen.tolist() == done.chosen.tolist()
    # A prior is a float64, a prediction a float32: let them be equal.
    rules = replace(
        case.rules,
        prior_quality=np.asarray(case.rules.prior_quality, np.float32).tolist(),
        prior_length=np.asarray(case.rules.prior_length, np.float32).tolist(),
    )
    broken = replace(case, rules=rules).in_core()
    mended.rules = rules
    mended.quality, mended.length = (
        np.where(np.isfinite(values), values, np.asarray(prior, np.float32))
        for values, prior in (
            (case.quality, rules.prior_quality),
            (case.length, rules.prior_length),
        )
    )
    whole = mended.in_core()
    assert whole.chosen.tolist() == broken.chosen.tolist()
    np.testing.assert_array_equal(whole.scores, broken.scores)


def test_a_batch_spreads_over_equal_instances() -> None:
    case = plain(8, 64)
    case.columns |= {"tpot_s": np.full(8, 0.02), "slots": np.full(8, 64)}
    for name in ("running", "waiting", "pending_decode"):
        case.columns[name][:] = 0
    case.length[:] = 100
    assert np.bincount(case.in_core().chosen).tolist() == [8] * 8


def test_ties_go_round_in_batches_of_one() -> None:
    """Each finished before the next comes: all are idle and equal, so the longest idle is due."""
    case = plain(5, 1)
    case.columns |= {"tpot_s": np.full(5, 0.02)}
    for name in ("running", "waiting", "pending_decode"):
        case.columns[name][:] = 0
    turns = []
    for _ in range(10):
        done = case.in_core()
        turns.append(int(done.chosen[0]))
        case.columns["last_assigned"] = done.view.last_assigned.copy()
    assert turns == [0, 1, 2, 3, 4] * 2


def test_the_longest_of_a_batch_is_assigned_first() -> None:
    case = plain(3, 3)
    case.weights = (0.0, 0.0, 1.0)
    case.columns |= {"tpot_s": np.full(3, 0.02), "slots": np.full(3, 8)}
    for name in ("running", "waiting", "pending_decode"):
        case.columns[name][:] = 0
    case.length[:, 0] = [10, 30, 20]
    assert case.in_core().chosen.tolist() == [2, 0, 1]
    case.rules = replace(case.rules, order="arrival")
    assert case.in_core().chosen.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("otherwise", "chosen"), [("fail", -1), ("cheapest", 2), ("fastest", 0)])
def test_what_no_ceiling_admits(
    otherwise: Literal["fail", "cheapest", "fastest"], chosen: int
) -> None:
    case = plain(3, 1, models=3)
    case.columns |= {
        "output_price": np.array([3.0, 2.0, 1.0]),
        "input_price": np.array([3.0, 2.0, 1.0]),
        "tpot_s": np.array([0.01, 0.02, 0.03]),
    }
    for name in ("running", "waiting", "pending_decode"):
        case.columns[name][:] = 0
    case.length[:] = 100
    case.options = {"max_seconds": np.zeros(1)}
    case.rules = replace(case.rules, on_no_candidate=otherwise)
    done = case.in_core()
    assert done.chosen.tolist() == [chosen]
    assert done.counted["relaxed"] == (otherwise != "fail")
    case.columns["context_window"][:] = 1  # which nothing relaxes
    assert case.in_core().chosen.tolist() == [-1]


def test_nothing_is_open() -> None:
    case = plain(4, 3)
    case.columns["healthy"][:] = 0
    done = case.in_core()
    assert done.chosen.tolist() == [-1] * 3
    assert done.counted["unassigned"] == 3
    assert np.isneginf(done.scores).all()


def test_other_threads_run_meanwhile() -> None:
    case = plain(500, 1024, models=4)
    view = case.on(trcore.InstanceView(500))
    rules = trcore.AssignRules([0.5] * 4, [200.0] * 4)
    chosen, tokens = np.empty(1024, np.int32), np.empty(1024, np.int32)
    batch = (case.prompt_tokens, case.max_tokens, case.quality, case.length)

    def assign() -> None:
        for _ in range(40):
            trcore.assign(view, rules, case.weights, *batch, chosen, tokens)

    assert ticks_during(assign) > 5
