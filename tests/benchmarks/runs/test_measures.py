from __future__ import annotations

import msgspec
import pytest

from benchmarks.load.loops import LoadResult, ServedItem
from benchmarks.load.system import TimedResponse, WorkItem
from benchmarks.report.load_figures import LoadFigures, Setting
from benchmarks.runs.measures import measure, over_rounds, routed_share, tokens_per_s

SETTING = Setting(
    system="delayed",
    algorithm="r2r",
    workload="low-effort",
    engine="profile",
    scale=0.5,
    concurrency=2,
)


def served(scheduled: float, times: list[float], models: list[int] | None = None) -> ServedItem:
    outcome = TimedResponse(scheduled, times, [7] * len(times), models or [0] * len(times))
    return ServedItem(WorkItem(0, (1,), 5, 0), scheduled, outcome)


def by_hand() -> LoadResult:
    """Two requests: TTFT 1 and 3 s, TPOT 0.5 and 2 s, E2E 2 and 7 s, 3 tokens each."""
    return LoadResult(
        clients=2,
        rate=0.0,
        began=10.0,
        ended=20.0,
        served=[
            served(10.0, [11.0, 11.5, 12.0], [0, 1, 0]),
            served(12.0, [15.0, 17.0, 19.0], [0, 1, 1]),
        ],
        steady=(11.0, 15.0),
        unbegun=2,
        abandoned=1,
    )


def test_figures_equal_those_worked_out_by_hand() -> None:
    found = measure(by_hand(), SETTING, {"threads": 2})
    assert (found.requests, found.unfinished, found.tokens, found.asked) == (2, 3, 6, 10)
    assert (found.seconds, found.throughput, found.throughput_rounds) == (10.0, 0.6, [0.6])
    assert (found.steady_seconds, found.steady_throughput) == (4.0, 0.75)
    assert (found.drain_seconds, found.drain_throughput) == (5.0, 0.4)
    assert found.routed_share == 0.5
    ttft, tpot, e2e = found.latencies_ms.ttft, found.latencies_ms.tpot, found.latencies_ms.e2e
    assert [ttft.median, ttft.mean, ttft.p99] == pytest.approx([2000, 2000, 2980])
    assert tpot is not None
    assert (tpot.median, tpot.mean) == (1250, 1250)
    assert [e2e.median, e2e.p99] == pytest.approx([4500, 6950])
    assert found.user_speed == 0.8
    assert found.user_speed_e2e == pytest.approx((3 / 2 + 3 / 7) / 2)
    assert found.configuration == {"threads": 2}


def test_the_window_holds_the_tokens_that_arrived_after_its_begin() -> None:
    run = by_hand()
    assert tokens_per_s(run.served, 11.0, 15.0) == 3 / 4
    assert tokens_per_s(run.served, 15.0, 15.0) is None
    assert tokens_per_s(run.served, 100.0, 101.0) == 0


def test_latencies_count_from_the_schedule_not_from_the_sending() -> None:
    late = served(0.0, [6.0, 7.0])
    late.outcome.began = 5.0
    found = measure(LoadResult(0, 1.0, 0.0, 7.0, [late]), SETTING)
    assert found.latencies_ms.ttft.median == 6000
    assert found.latencies_ms.e2e.median == 7000
    assert found.steady_throughput is None


def test_single_tokens_have_no_spacing() -> None:
    found = measure(LoadResult(1, 0.0, 0.0, 2.0, [served(0.0, [2.0])]), SETTING)
    assert (found.latencies_ms.tpot, found.user_speed, found.user_speed_e2e) == (None, None, 0.5)


def test_the_routed_share_is_unknown_where_a_system_does_not_say() -> None:
    assert routed_share([served(0.0, [1.0, 2.0], [0, -1])]) is None
    assert routed_share([served(0.0, [1.0, 2.0], [0, 2])]) == 0.5


def test_a_run_without_a_response_has_no_figures() -> None:
    with pytest.raises(ValueError, match="delayed: no request ended"):
        measure(LoadResult(1, 0.0, 0.0, 2.0), SETTING)


def test_rounds_give_medians_and_their_spread() -> None:
    def round_of(seconds: float) -> LoadFigures:
        times = [1.0, 2.0, 3.0]
        return measure(LoadResult(1, 0.0, 0.0, seconds, [served(0.0, times)]), SETTING)

    found = over_rounds([round_of(3.0), round_of(6.0), round_of(4.0)])
    assert found.throughput == 0.75
    assert found.throughput_rounds == [1.0, 0.5, 0.75]
    assert found.rounds == 3
    assert found.spread == pytest.approx(0.5 / 0.75)
    assert (found.tokens, found.asked, found.requests, found.seconds) == (9, 15, 3, 4.0)
    assert found.latencies_ms == round_of(3.0).latencies_ms
    assert found.steady_throughput is None

    other = msgspec.structs.replace(found, setting=msgspec.structs.replace(SETTING, scale=1.0))
    with pytest.raises(ValueError, match="one setting"):
        over_rounds([found, other])


def test_a_record_survives_json() -> None:
    found = measure(by_hand(), SETTING, {"models": [{"name": "slm"}]})
    assert msgspec.json.decode(msgspec.json.encode(found), type=LoadFigures) == found
