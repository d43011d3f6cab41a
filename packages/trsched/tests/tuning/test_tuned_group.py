"""A live group tunes itself, says what it believes, and goes on when tuning fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.trsched.groups import profile_config, request
from tests.support.waiting import until
from trsched.group import Group
from trsched.hosts.process_host import ProcessHost
from trsched.hosts.thread_host import ThreadHost
from trsched.plan.check import check_group
from trsched.shared.active_count import ActiveCount
from trsched.shared.counters import SubserverStats, TuningStatus
from trsched.shared.step_counters import StepCounters
from trsched.tuning.tuner_thread import POLL_S, TunerThread

LONG = 250
POLL_AT_ONCE_S = 1e-4
STATS = [SubserverStats(name, StepCounters(2, 4)) for name in ("small", "large")]


def tuned_group(tuner_poll_s: float = POLL_S, **settings: Any) -> Group:
    plan = check_group(
        profile_config(
            "bernoulli", {"p": 0.4}, delayed_batching="auto", step_ms=0.5, max_active=4, **settings
        )
    )
    host: type[ProcessHost | ThreadHost] = ProcessHost if plan.config.in_processes else ThreadHost
    return Group(plan, host.open(plan, lambda line: None), tuner_poll_s=tuner_poll_s)


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
@pytest.mark.parametrize("overlap", [True, False])
def test_it_learns_while_it_serves(overlap: bool, processes: bool) -> None:
    group = tuned_group(overlap=overlap, processes=processes)
    streams = [group.submit(request(seed, LONG)) for seed in range(12)]
    until(lambda: group.status().tuning is not None)
    known = group.status().tuning
    assert known is not None
    assert 1 <= known.active <= 4
    assert known.routing[0][1] == pytest.approx(0.4, abs=0.2)
    assert len(known.step_seconds[0]) == known.active
    assert known.step_seconds[0][0] >= 0.0005
    assert known.predicted > 0
    assert [len(stream.result()[0]) for stream in streams] == [LONG] * 12
    group.close()


def test_it_learns_where_requests_are_readmitted() -> None:
    """Each visit reads all tokens anew there: that is what a turn costs, and no exception."""
    group = tuned_group(handoff="readmit")
    streams = [group.submit(request(seed, LONG)) for seed in range(12)]
    until(lambda: group.status().tuning is not None)
    for stream in streams:
        group.abort(stream)
    group.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"delayed_batching": "fixed"},
        {"delayed_batching": "off"},
        {"delayed_batching": "auto", "execution": "lockstep"},
        {"delayed_batching": "auto", "mode": "llm-only"},
    ],
)
def test_what_is_not_tuned_says_nothing(settings: dict[str, Any]) -> None:
    group = Group.open(profile_config("bernoulli", **settings))
    group.submit(request(1, 4)).result()
    assert group.status().tuning is None
    group.close()


def test_off_means_eager_whatever_the_thresholds() -> None:
    """Also such as could deadlock otherwise."""
    group = Group.open(profile_config("bernoulli", thresholds=[9, 200], delayed_batching="off"))
    assert [model.threshold for model in group.config.models] == [1, 1]
    group.submit(request(1, 4)).result()
    assert [subserver.threshold for subserver in group.status().subservers] == [1, 1]
    group.close()


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_thresholds_start_where_they_are_configured(processes: bool) -> None:
    group = Group.open(
        profile_config(
            "fixed", thresholds=[4, 1], delayed_batching="auto", step_ms=0.5, processes=processes
        )
    )
    streams = [group.submit(request(seed, LONG)) for seed in range(8)]
    until(lambda: group.status().subservers[0].threshold == 4)
    for stream in streams:
        stream.result()
    group.close()


class Scripted:
    """A tuner with a given opinion; with none it fails."""

    def __init__(self, status: TuningStatus | None) -> None:
        self.status = status
        self.polls = 0

    def poll(self, active: int, now: float) -> None:
        self.polls += 1
        if self.status is None:
            raise ValueError("no opinion")


def reports_of(tuner: Scripted, polls: int, active: int = 4) -> list[str]:
    count, lines = ActiveCount(), list[str]()
    count.change(active, routed=True)
    thread = TunerThread(tuner, count, STATS, lines.append, POLL_AT_ONCE_S)  # type: ignore[arg-type]
    thread.start()
    until(lambda: tuner.polls >= polls or bool(lines))
    if tuner.status is not None:
        until(lambda: tuner.polls >= polls)
    thread.stop()
    return lines


def opinion(predicted: float) -> TuningStatus:
    return TuningStatus(
        active=4,
        routing=((0.5, 0.5), (1.0, 0.0)),
        step_seconds=((0.01,), (0.01,)),
        thresholds=(1, 1),
        predicted=predicted,
        measured=predicted,
        alone=(900.0, 300.0),
    )


def test_a_loss_is_reported_once() -> None:
    (line,) = reports_of(Scripted(opinion(100.0)), 200)
    assert "large alone" in line
    assert "300" in line


def test_no_loss_no_report() -> None:
    assert reports_of(Scripted(opinion(400.0)), 200) == []
    assert reports_of(Scripted(opinion(100.0)), 200, active=0) == []


def test_a_tuner_that_has_failed_says_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it believed would be on the metrics page for ever, as if it still held."""
    tuner, lines = Scripted(opinion(400.0)), list[str]()
    thread = TunerThread(tuner, ActiveCount(), STATS, lines.append, POLL_AT_ONCE_S)  # type: ignore[arg-type]
    assert thread.status is not None
    monkeypatch.setattr(tuner, "poll", None)  # calling it raises
    thread.start()
    until(lambda: bool(lines))
    thread.stop()
    assert thread.status is None


def test_a_tuner_that_fails_is_reported_and_serving_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (line,) = reports_of(Scripted(None), 1)
    assert line == "delayed batching is no longer tuned: no opinion"
    monkeypatch.setattr("trsched.tuning.tuner.Throughput", None)  # calling it raises
    group = tuned_group()
    streams = [group.submit(request(seed, LONG)) for seed in range(12)]
    assert [len(stream.result()[0]) for stream in streams] == [LONG] * 12
    group.close()


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_tuning_ends_with_a_model(processes: bool) -> None:
    group = tuned_group(tuner_poll_s=1e-3, processes=processes)
    streams = [group.submit(request(seed, LONG)) for seed in range(8)]
    until(lambda: group.status().tuning is not None)
    group.host.inboxes[1].push(b"this is no record")
    assert [len(stream.result()[0]) for stream in streams] == [LONG] * 8
    until(lambda: group.status().tuning is None)
    group.close()
