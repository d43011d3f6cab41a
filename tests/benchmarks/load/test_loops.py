from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from benchmarks.load.loops import LoadError, LoadResult, closed_loop, open_loop
from tests.benchmarks.load.scripted import ScriptedSystem, in_virtual_time, work

Clock = Callable[[], float]


@pytest.mark.parametrize("clients", [1, 3, 8, 40])
def test_a_closed_loop_serves_each_item_once_and_never_more_than_its_clients_at_once(
    clients: int,
) -> None:
    items = work(*([1, 9, 4, 2, 7] * 5))

    async def main(clock: Clock) -> tuple[LoadResult, ScriptedSystem]:
        system = ScriptedSystem(clock)
        return await closed_loop(system, items, clients, clock=clock), system

    run, system = in_virtual_time(main)
    assert sorted(system.began) == sorted(system.ended) == [item.number for item in items]
    assert sorted(served.item.number for served in run.served) == [item.number for item in items]
    assert system.most_in_flight == min(clients, len(items))
    assert (run.unbegun, run.abandoned) == (0, 0)


def test_the_steady_window_leaves_out_first_responses_and_the_drain() -> None:
    # client 1: 3 tokens (to 2.0 s), then 5 (to 5.0). client 2: 1 token (to 1.0), then 7 (to 5.0),
    # then nothing. Client 1 takes the last item, 9 tokens, to 10.0 s.
    items = work(3, 1, 7, 5, 9)

    async def main(clock: Clock) -> LoadResult:
        return await closed_loop(ScriptedSystem(clock), items, 2, clock=clock)

    run = in_virtual_time(main)
    assert run.steady == (2.0, 5.0)
    assert (run.began, run.ended) == (0.0, 10.0)


def test_there_is_no_steady_window_where_the_clients_were_never_all_busy_after_warming_up() -> None:
    async def main(clock: Clock) -> LoadResult:
        return await closed_loop(ScriptedSystem(clock), work(4, 4), 2, clock=clock)

    assert in_virtual_time(main).steady is None

    async def too_many(clock: Clock) -> LoadResult:
        return await closed_loop(ScriptedSystem(clock), work(4, 4, 4), 5, clock=clock)

    assert in_virtual_time(too_many).steady is None


def test_warming_up_is_served_and_forgotten() -> None:
    async def main(clock: Clock) -> tuple[LoadResult, ScriptedSystem]:
        system = ScriptedSystem(clock)
        warm_up = work(3, 3, first=100)
        return await closed_loop(system, work(2), 1, warm_up=warm_up, clock=clock), system

    run, system = in_virtual_time(main)
    assert system.ended == [100, 101, 0]
    assert [served.item.number for served in run.served] == [0]
    assert (run.began, run.ended) == (4.0, 5.5)


def test_a_system_s_error_ends_the_load_and_names_the_request() -> None:
    seen: list[ScriptedSystem] = []

    async def main(clock: Clock) -> None:
        seen.append(ScriptedSystem(clock, failing=(1,)))
        await closed_loop(seen[0], work(9, 2, 2, 2), 2, clock=clock)

    with pytest.raises(LoadError, match=r"scripted, request 1: ConnectionError.*went away"):
        in_virtual_time(main)
    assert seen[0].in_flight == 0, "the other client's request is not left behind"
    assert seen[0].began == [0, 1]


def test_a_response_without_tokens_is_an_error() -> None:
    async def main(clock: Clock) -> None:
        await closed_loop(ScriptedSystem(clock), work(0), 1, clock=clock)

    with pytest.raises(LoadError, match="no token came"):
        in_virtual_time(main)


def test_after_the_time_limit_no_request_begins_and_long_ones_are_abandoned() -> None:
    async def main(clock: Clock) -> LoadResult:
        items = work(7, 1000, 2, 2, 2)
        return await closed_loop(ScriptedSystem(clock), items, 2, limit_s=3.0, clock=clock)

    run = in_virtual_time(main)
    assert [served.item.number for served in run.served] == [0]
    assert (run.unbegun, run.abandoned) == (3, 1)
    assert run.ended == 6.0


@pytest.mark.parametrize("first_s", [0.1, 100.0])
def test_open_loop_arrivals_wait_for_nobody(first_s: float) -> None:
    arrivals = [0.0, 0.5, 0.5, 2.0]

    async def main(clock: Clock) -> LoadResult:
        system = ScriptedSystem(clock, first_s=first_s)
        return await open_loop(system, work(1, 1, 1, 1), arrivals, clock=clock)

    run = in_virtual_time(main)
    assert [served.outcome.began for served in run.served] == arrivals
    assert [served.scheduled for served in run.served] == arrivals
    assert run.rate == 2.0


def test_open_loop_latency_counts_from_the_schedule_also_when_the_sender_was_held_up() -> None:
    held_up: list[float] = []

    class Blocking(ScriptedSystem):
        """Holds up the whole event loop, load generator and all."""

        async def serve(self, item):
            held_up.append(5.0)
            return await super().serve(item)

    async def main(loop_clock: Clock) -> LoadResult:
        def clock() -> float:
            return loop_clock() + sum(held_up)

        return await open_loop(Blocking(clock), work(1, 1), [0.0, 1.0], clock=clock)

    late = in_virtual_time(main).served[1]
    assert (late.scheduled, late.outcome.began) == (1.0, 11.0)
    assert late.outcome.times == [12.0]


def test_open_loop_is_bounded_in_time() -> None:
    async def main(clock: Clock) -> tuple[LoadResult, ScriptedSystem]:
        system = ScriptedSystem(clock)
        items = work(1, 100, 1)
        return await open_loop(system, items, [0.0, 1.0, 9.0], limit_s=5.0, clock=clock), system

    run, system = in_virtual_time(main)
    assert (len(run.served), run.unbegun, run.abandoned) == (1, 1, 1)
    assert (run.ended, system.in_flight) == (10.0, 0)


@pytest.mark.parametrize("arrivals", [[0.0], [1.0, 0.5]])
def test_open_loop_refuses_arrivals_that_do_not_fit(arrivals: list[float]) -> None:
    async def main(clock: Clock) -> None:
        await open_loop(ScriptedSystem(clock), work(1, 1), arrivals, clock=clock)

    with pytest.raises(ValueError, match="arrival"):
        in_virtual_time(main)


def test_the_clock_of_outcomes_is_the_load_s_by_default() -> None:
    import time

    async def main() -> LoadResult:
        system = ScriptedSystem(time.perf_counter, first_s=0.001, step_s=0.001)
        return await closed_loop(system, work(3, 3), 1)

    run = asyncio.run(main())
    times = [time for served in run.served for time in served.outcome.times]
    assert run.began < times[0] <= times[-1] <= run.ended


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(clock: Clock) -> None:
        await closed_loop(ScriptedSystem(clock), work(10, 30), 1, label="mine, c=1", clock=clock)

    in_virtual_time(main)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == "mine, c=1: 2/2 requests, 40 tokens, 21 s"
