"""Records to figures, by hand."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trsched.errors import ConfigError
from trserve.bench.client.failure import Failure
from trserve.bench.client.request_record import RequestRecord
from trserve.bench.results.objectives import Objectives, objectives
from trserve.bench.results.percentiles import distribution
from trserve.bench.results.summary import LoadSummary, Observed, notes, summarise


def record(number: int = 0, **fields: Any) -> RequestRecord:
    """Scheduled at 1, sent at 1.5, content at 2, 3 and 5, ended at 6; five tokens."""
    if "content_at" in fields:
        fields["content_at"] = array("d", fields["content_at"])
    plain = RequestRecord(
        number=number,
        scheduled=1.0,
        begun=1.25,
        sent=1.5,
        ended=6.0,
        content_at=array("d", [2.0, 3.0, 5.0]),
        input_tokens=10,
        output_tokens=5,
        tokens_from="usage",
        several_choices=False,
        status=200,
        finish_reason="stop",
        failure=None,
    )
    return replace(plain, **fields)


def failed(number: int, kind: str, message: str = "x", **fields: Any) -> RequestRecord:
    return record(number, failure=Failure(kind, message), **fields)  # type: ignore[arg-type]


def summary(
    *records: RequestRecord, wanted: Objectives | None = None, **fields: Any
) -> LoadSummary:
    observed: dict[str, Any] = {
        "records": records,
        "planned": 10,
        "begun": len(records),
        "sent": len(records),
        "peak_in_flight": 3,
        "seconds": 4.0,
        "cpu_seconds": 1.0,
        "late": [0.001, 0.003],
        "open_loop": True,
        "held_back": True,
    }
    return summarise(Observed(**(observed | fields)), wanted)


def test_latencies_count_from_the_schedule() -> None:
    one = record()
    assert (one.ttft, one.tpot, one.e2e) == (1.0, 3 / 4, 5.0)
    assert list(one.gaps()) == [1.0, 2.0]
    assert (one.lag, one.slot_wait) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("fields", "ttft", "tpot"),
    [
        ({"output_tokens": 1, "content_at": [2.0]}, 1.0, None),
        ({"output_tokens": 5, "content_at": [2.0]}, 1.0, None),  # all in one chunk: no pace
        ({"output_tokens": 1}, 1.0, None),
        ({"output_tokens": None, "content_at": []}, None, None),
        ({"output_tokens": 2, "content_at": [2.0, 4.5]}, 1.0, 2.5),
    ],
)
def test_latencies_that_are_none(fields: dict[str, Any], ttft: float, tpot: float) -> None:
    one = record(**fields)
    assert (one.ttft, one.tpot) == (ttft, tpot)


def test_a_load() -> None:
    found = summary(
        record(0),
        record(1, ended=8.0, output_tokens=7, finish_reason="length"),
        failed(2, "status_429", "later", status=429, ended=1e6, content_at=[]),
        failed(3, "timeout", "first", status=None, content_at=[1e6, 1e7]),
        failed(4, "timeout", "second", status=None),
        begun=10,
        sent=7,
    )
    counts = found.counts
    assert (counts.planned, counts.begun, counts.sent, counts.completed) == (10, 10, 7, 2)
    assert (counts.failed, counts.cut_off) == (3, 2)
    assert found.requests_per_s == 2 / 4
    assert (found.output.total, found.output.per_s) == (12, 3.0)
    assert (found.input.total, found.input.per_s) == (20, 5.0)
    assert found.e2e is not None
    assert (found.e2e.n, found.e2e.mean, found.e2e.max) == (2, 6.0, 7.0)
    assert found.itl is not None
    assert (found.itl.n, found.itl.max) == (4, 2.0)
    assert {kind: each.count for kind, each in found.failures.items()} == {
        "timeout": 2,
        "status_429": 1,
    }
    assert found.failures["timeout"].example == "first"
    assert found.finish_reasons == {"stop": 1, "length": 1}
    assert found.statuses == {"200": 2, "429": 1}
    assert found.generator.schedule is not None
    assert found.generator.schedule.n == 5
    assert found.generator.cpu_share == 0.25
    said = "\n".join(notes(found))
    assert "2 requests were cut off" in said
    assert "3 requests waited for a slot to the end and were never sent" in said
    assert "2 requests took longer than --timeout" in said


def test_who_counted_is_said() -> None:
    found = summary(
        record(0),
        record(1, tokens_from="chunks", output_tokens=3, input_tokens=None),
        record(2, tokens_from=None, output_tokens=None, input_tokens=None, content_at=[]),
    )
    assert (found.output.by_usage, found.output.by_chunks, found.output.unknown) == (1, 1, 1)
    assert (found.input.by_usage, found.input.by_chunks, found.input.unknown) == (1, 0, 2)
    assert (found.output.total, found.input.total) == (8, 10)
    said = notes(found)
    assert [line.split()[0] for line in said[:3]] == ["1", "1", "2"]
    assert "chunks with content count as their tokens" in said[0]


def test_several_choices_have_no_pace() -> None:
    one = record(several_choices=True)
    assert (one.ttft, one.tpot, one.e2e) == (1.0, None, 5.0)
    assert list(one.gaps()) == []
    found = summary(one, record(1), failed(2, "timeout", several_choices=True))
    assert found.tpot is not None
    assert found.itl is not None
    assert (found.tpot.n, found.itl.n, found.output.total) == (1, 2, 10)
    assert "1 responses had several choices (n > 1): TPOT and ITL" in notes(found)[0]


def test_nothing_ended() -> None:
    found = summary(begun=0, seconds=0.0, late=[], wanted=Objectives(e2e=1.0))
    assert found.ttft is found.tpot is found.itl is found.e2e is None
    assert (found.requests_per_s, found.output.per_s) == (0.0, 0.0)
    assert found.goodput is not None
    assert (found.goodput.requests, found.goodput.share) == (0, 0.0)
    assert notes(found) == []


@pytest.mark.parametrize(
    ("late", "begun", "warned"),
    [
        ([0.001] * 200, 1.0, False),
        ([0.001] * 190 + [0.02] * 10, 1.0, True),
        ([0.001] * 999 + [0.2], 1.0, True),
        ([0.001] * 200, 1.02, True),
    ],
)
def test_a_late_generator_is_warned_of(late: list[float], begun: float, warned: bool) -> None:
    found = summary(record(begun=begun), late=late)
    assert any("WARNING: the generator" in note for note in notes(found)) == warned


def test_closed_loops_have_no_schedule() -> None:
    found = summary(record(), open_loop=False, held_back=False)
    assert found.generator.schedule is found.generator.slot_wait is None
    assert found.generator.event_loop is not None


@pytest.mark.parametrize(
    ("bounds", "fields", "good"),
    [
        ({"ttft": 1.0, "tpot": 0.75, "e2e": 5.0}, {}, True),
        ({"ttft": 0.99}, {}, False),
        ({"tpot": 0.74}, {}, False),
        ({"e2e": 4.99}, {}, False),
        ({"tpot": 0.1}, {"output_tokens": 1}, True),
        ({"ttft": 9.0}, {"content_at": []}, False),
        ({"e2e": 9.0}, {"failure": Failure("timeout", "")}, False),
    ],
)
def test_objectives(bounds: dict[str, float], fields: dict[str, Any], good: bool) -> None:
    assert Objectives(**bounds).met(record(**fields)) == good
    goodput = summary(record(**fields), failed(1, "refused"), wanted=Objectives(**bounds)).goodput
    assert goodput is not None
    assert (goodput.requests, goodput.per_s, goodput.share) == (good, good / 4, good / 2)


def test_objectives_as_text() -> None:
    assert objectives("ttft=0.5, e2e=10", "--slo") == Objectives(ttft=0.5, e2e=10.0)
    for text in ("", "ttft", "ttft=", "ttft=0", "ttft=nan", "ttft=1,ttft=2", "itl=1", "ttft=inf"):
        with pytest.raises(ConfigError) as found:
            objectives(text, "--slo")
        assert found.value.field == "--slo"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_distributions(values: list[float]) -> None:
    """Percentiles as by their definition: linear between the two nearest order statistics."""
    found = distribution(iter(values))
    assert found is not None
    ordered = sorted(values)
    for share, value in ((0.5, found.p50), (0.9, found.p90), (0.95, found.p95), (0.99, found.p99)):
        rank = share * (len(ordered) - 1)
        below = ordered[int(rank)]
        above = ordered[min(int(rank) + 1, len(ordered) - 1)]
        assert value == pytest.approx(below + (rank - int(rank)) * (above - below))
    assert (found.n, found.max) == (len(values), max(values))
    assert found.mean == pytest.approx(float(np.mean(values)))


def test_no_distribution_of_nothing() -> None:
    assert distribution([]) is None
