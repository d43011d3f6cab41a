"""rbalance.simulator.instance against a plain loop over tokens, and by its own promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbalance.cluster import Tier
from rbalance.simulator.instance import SimulatedAnswer, SimulatedInstance, SimulatedToken


def tier(slots: int = 4, kv_tokens: int = 1000, growth: float = 0.25) -> Tier:
    return Tier(
        name="t",
        model="m",
        instances=1,
        price_in=0,
        price_out=0,
        tpot_s=0.5,
        prefill_rate=100,
        slots=slots,
        kv_tokens=kv_tokens,
        growth=growth,
    )


def run(
    instance: SimulatedInstance, arrivals: list[tuple[float, SimulatedAnswer]]
) -> list[SimulatedToken]:
    events = []
    for at, sequence in arrivals:
        events += instance.advance(at)
        instance.submit(sequence, at)
    while (at := instance.next_event()) < float("inf"):
        events += instance.advance(at)
    return events


def test_one_request_is_read_and_then_written() -> None:
    events = run(SimulatedInstance(tier()), [(1.0, SimulatedAnswer(7, 200, 5))])
    assert events == [SimulatedToken(3.0, 7, False), SimulatedToken(3.0 + 4 * 0.5, 7, True)]


def test_reading_a_prompt_halts_decoding_and_company_slows_it() -> None:
    events = run(
        SimulatedInstance(tier()),
        [(0.0, SimulatedAnswer(0, 100, 11)), (2.0, SimulatedAnswer(1, 100, 3))],
    )
    # 0 starts at 1.0; from 2.0 to 3.0 its neighbour is read; then both at 0.625 s a token
    both = 0.5 * 1.25
    first = 3.0 + 2 * both
    left = 10 - 2 - 2
    assert [(event.key, event.last, event.at) for event in events] == [
        (0, False, 1.0),
        (1, False, 3.0),
        (1, True, pytest.approx(first)),
        (0, True, pytest.approx(first + left * 0.5)),
    ]


def test_a_request_waits_for_a_slot_and_for_kv_memory_in_order() -> None:
    one_slot = run(
        SimulatedInstance(tier(slots=1)), [(0.0, SimulatedAnswer(k, 100, 3)) for k in (0, 1)]
    )
    assert [event.at for event in one_slot] == pytest.approx([1.0, 2.0, 3.0, 4.0])
    instance = SimulatedInstance(tier(kv_tokens=250))
    for key in (0, 1, 2):
        instance.submit(SimulatedAnswer(key, 100, 20), 0.0)
    assert (instance.running, instance.waiting) == (2, 1)
    assert instance.kv_usage == pytest.approx(240 / 250)


def test_what_never_fits_runs_alone_and_gives_its_memory_back() -> None:
    instance = SimulatedInstance(tier(kv_tokens=50))
    events = run(instance, [(0.0, SimulatedAnswer(k, 100, 3)) for k in (0, 1)])
    assert [event.key for event in events] == [0, 0, 1, 1]
    assert instance.kv_usage == 0


@given(
    st.lists(
        st.tuples(st.floats(0, 3), st.integers(1, 60), st.integers(1, 12)), min_size=1, max_size=12
    ),
    st.integers(1, 4),
)
def test_every_request_gets_one_first_and_one_last_token_and_order_is_kept(
    given: list[tuple[float, int, int]], slots: int
) -> None:
    arrivals, at = [], 0.0
    for key, (gap, prompt, tokens) in enumerate(given):
        at += gap
        arrivals.append((at, SimulatedAnswer(key, prompt, tokens)))
    instance = SimulatedInstance(tier(slots=slots, kv_tokens=120))
    events = run(instance, arrivals)
    assert [event.at for event in events] == sorted(event.at for event in events)
    first = {event.key: event.at for event in events if not event.last}
    last = {event.key: event.at for event in events if event.last}
    assert len(events) == 2 * len(arrivals)
    assert list(first) == sorted(first), "requests are read in the order they came"
    for at, sequence in arrivals:
        assert first[sequence.key] >= at + sequence.prompt / 100 - 1e-9
        alone = (sequence.tokens - 1) * 0.5
        assert last[sequence.key] - first[sequence.key] >= alone - 1e-9
    assert (instance.running, instance.waiting, instance.kv_usage) == (0, 0, 0)


@given(st.lists(st.floats(0.01, 2), max_size=20))
def test_looking_more_often_changes_nothing(looks: list[float]) -> None:
    arrivals = [(0.3 * key, SimulatedAnswer(key, 20 + key, 3 + 2 * key)) for key in range(6)]
    plain = run(SimulatedInstance(tier()), arrivals)
    watched, events, at, due = SimulatedInstance(tier()), [], 0.0, list(arrivals)
    for gap in looks:
        at += gap
        while due and due[0][0] <= at:
            when, sequence = due.pop(0)
            events += watched.advance(when)
            watched.submit(sequence, when)
        events += watched.advance(at)
        assert all(written >= 1 for _, written in watched.written())
    events += run(watched, due)
    assert [(event.key, event.last) for event in events] == [(e.key, e.last) for e in plain]
    assert [event.at for event in events] == pytest.approx([event.at for event in plain])
