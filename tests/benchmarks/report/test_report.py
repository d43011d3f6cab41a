from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.report import benchmark_run, records
from benchmarks.report.benchmark_run import BenchmarkRun
from benchmarks.report.cost_model import PairCosts
from benchmarks.report.machine import machine
from benchmarks.report.markdown import figure, table, unit
from benchmarks.report.names import LLM_ONLY, OURS
from benchmarks.report.records import RoutingRecords, StepBreakdown, ThresholdPoint
from benchmarks.report.report import report_text, write_report
from tests.benchmarks.report.figures import full_set, measured

ARTICLE = PairCosts(small_ms=[6.0], large_ms=[27.9])


def everything() -> RoutingRecords:
    points = [
        ThresholdPoint(2, (1, 1), 98.9, 98.1),
        ThresholdPoint(2, (1, 2), 110.3, 109.5),
        ThresholdPoint(4, (1, 3), 208.0, 206.0),
        ThresholdPoint(4, (1, 2), 204.0, 207.0),
        ThresholdPoint(4, (2, 2), 180.0),
    ]
    breakdown = [
        StepBreakdown("std-serving", "profile", {"model": 6.0, "readmission": 120.0, "HTTP": 8.0}),
        StepBreakdown(OURS, "profile", {"model": 6.0, "scheduling": 0.25}),
    ]
    slower = measured(OURS, 111.5, algorithm="r2r", concurrency=2, share=0.85)
    alone = measured(LLM_ONLY, 125.0, algorithm="", concurrency=2, share=None)
    return RoutingRecords(
        measured=[*full_set(), slower, alone],
        thresholds=points,
        steps=breakdown,
        costs={"profile": ARTICLE},
        notes=["Threads are pinned."],
    )


def a_run(name: str, failure: str = "", **last_line: object) -> BenchmarkRun:
    return BenchmarkRun(
        name=name,
        command=f"python -m benchmarks.{name} --smoke",
        size="smoke",
        date="2026-01-02 03:04:05",
        seconds=12.3,
        failure=failure,
        last_line={"benchmark": name, **last_line} if last_line else {},
        about=f"What {name} costs.",
    )


def test_a_report_holds_the_figures_with_their_units_and_the_pictures(tmp_path: Path) -> None:
    records.save(everything(), tmp_path)
    benchmark_run.save(a_run("handoff", ring_process_p50_us=4.7123, cores=2), tmp_path)
    benchmark_run.save(a_run("overhead", "exit status 3"), tmp_path)
    benchmark_run.save(a_run("routing", min_ratio=2.0), tmp_path)
    (tmp_path / "quality.png").write_bytes(b"")
    benchmark_run.save(a_run("quality", auc_r2r=2.49), tmp_path)

    path = write_report(tmp_path)

    text = path.read_text("utf-8")
    assert path == tmp_path / "REPORT.md"
    for part in (
        "| `min_ratio` | profile |",
        "| 2 × | ≥ 2.01: **missed** |",
        "| 9 × | ≥ 8.61: met |",
        "| `delayed` over the stronger of `official` and `std-serving` | **2.00 ×** |",
        "| **`delayed`** | R2R | 2.5 requests/s, poisson |",
        "12.5 / 40.25",
        "4,321 / 4,400",
        "Threads are pinned.",
        "| `std-serving` | profile | readmission | 120 | 89.6 |",
        "| 4 | (1, 3) | 208 | 206 | (1, 2) | 207 | 0.48 | 2 of 3 |",
        "| `ring_process_p50_us` | 4.712 | µs |",
        "**FAILED**: exit status 3",
        "![quality](quality.png)",
        "What handoff costs.",
        "make bench FULL=1",
        '`{"server": "delayed", "context": 512}`',
    ):
        assert part in text, part
    pictures = {p.name for p in tmp_path.glob("*.png")} - {"quality.png"}
    assert pictures == {
        "throughput_speed_profile.png",
        "systems_profile.png",
        "gain_profile.png",
        "step.png",
        "thresholds.png",
    }
    for name in pictures:
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert f"]({name})" in text


def test_where_ours_is_slower_than_the_large_model_alone_the_report_says_why() -> None:
    text = report_text([], everything(), {}, {}, datetime.now(UTC))
    assert "| R2R | low-effort | 2 | 111.5 | 125 | 0.892 × | 0.85 |" in text
    reason = next(line for line in text.splitlines() if line.startswith("- R2R, low-effort, 2"))
    assert "1.00 · 6.0 + 0.85 · 27.9 = 29.7 ms, against 27.9 ms" in reason
    assert "at least 14.86 ms a token, so 67 tok/s at most" in reason


@pytest.mark.parametrize(
    ("ours", "share", "why"),
    [
        (60.0, 0.85, "no schedule of this pair reaches it"),
        (60.0, 0.1, "the other 12.27 ms a token are waiting"),
    ],
)
def test_the_reason_tells_what_cannot_be_from_what_is_lost(
    ours: float, share: float, why: str
) -> None:
    both = [
        measured(OURS, ours, share=share, concurrency=2),
        measured(LLM_ONLY, 71.7, concurrency=2),
    ]
    routing = RoutingRecords(measured=both, costs={"profile": ARTICLE})
    assert why in report_text([], routing, {}, {}, datetime.now(UTC))


def test_a_report_may_be_written_from_a_part_or_from_nothing(tmp_path: Path) -> None:
    assert "# Benchmarks" in write_report(tmp_path).read_text("utf-8")
    records.save(RoutingRecords(measured=[measured(OURS, 100.0, engine="real")]), tmp_path)
    text = write_report(tmp_path).read_text("utf-8")
    assert "### The real engine" in text
    assert "`llm-only` was not measured." in text
    assert "profile engine" not in text.lower().replace("marks measured (profile)", "")


def test_the_tuning_benchmark_s_thresholds_are_shown_where_routing_has_none(tmp_path: Path) -> None:
    rows = [[1, 5, 399.0, 396.5], [1, 4, 386.8, 397.3]]
    optimum = {"thresholds": [1, 5], "rows": rows}
    run = a_run("tuning", optimum_8=optimum, optimum_gap_8=0.002)
    benchmark_run.save(run, tmp_path)
    text = write_report(tmp_path).read_text("utf-8")
    assert "| 8 | (1, 5) | 399 | 396.5 | (1, 4) | 397.3 | 0.20 | 2 of 2 |" in text
    assert (tmp_path / "thresholds.png").exists()
    assert text.count("](thresholds.png)") == 1


def test_records_survive_the_file(tmp_path: Path) -> None:
    assert records.load(tmp_path) is None
    records.save(everything(), tmp_path)
    assert records.load(tmp_path) == everything()
    assert benchmark_run.load_all(tmp_path) == []
    benchmark_run.save(a_run("handoff", x=1), tmp_path)
    assert benchmark_run.load_all(tmp_path) == [a_run("handoff", x=1)]


def test_the_machine_is_named() -> None:
    assert {"cores", "system", "Python", "numpy"} <= set(machine())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.123456, "0.1235"),
        (12.3456, "12.35"),
        (12345.6, "12,346"),
        (0.00001234, "1.23e-05"),
        (1234567, "1,234,567"),
        (7, "7"),
    ],
)
def test_figures_have_so_many_digits_as_say_something(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_units_are_read_from_names_and_tables_keep_their_cells() -> None:
    names = ("tok_s_16", "server_handoff_p50_us", "ratio_4", "messages_per_s", "table_seconds", "x")
    assert [unit(name) for name in names] == ["tok/s", "µs", "×", "1/s", "s", ""]
    rates = ("rps_64", "rps_ratio_litellm", "tokens_per_second_litellm", "cpu_ms_per_request_64")
    assert [unit(name) for name in rates] == ["1/s", "×", "1/s", "ms"]
    made = table(["a", "b"], [["x|y", "1"], ["2", "–"]])
    assert made == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n| 2 | – |"
    assert table(["a"], []) == "| a |\n| --- |"
