"""How a load's numbers look in the terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from trserve.bench.results.percentiles import Distribution
from trserve.bench.results.summary import LoadSummary, Tokens, notes


def show(summary: LoadSummary, heading: str, offered: float | None) -> None:
    """Write to stdout; colours only in a terminal.

    offered: requests/s, None without a rate.
    """
    width = None if sys.stdout.isatty() else 120
    console = Console(width=width, highlight=False, markup=False)
    console.print(heading, soft_wrap=True)
    for line in _counts(summary, offered):
        console.print(line, soft_wrap=True)
    console.print(_latencies(summary))
    if summary.failures:
        console.print(_failures(summary))
    for line in (*_generator(summary), *notes(summary)):
        console.print(line, soft_wrap=True)


def _counts(summary: LoadSummary, offered: float | None) -> list[str]:
    counts = summary.counts
    planned = "" if counts.planned is None else f" of {counts.planned}"
    requests = (
        f"requests: {counts.completed} complete, {counts.failed} failed, {counts.cut_off} cut off; "
        f"{counts.sent}{planned} sent in {summary.seconds:.2f} s, "
        f"up to {counts.peak_in_flight} in flight"
    )
    of = "" if offered is None else f" of {offered:.2f} offered"
    throughput = (
        f"throughput: {summary.requests_per_s:.2f} requests/s{of}, "
        f"input {_tokens(summary.input)}, output {_tokens(summary.output)}"
    )
    lines = [requests, throughput]
    if summary.goodput is not None:
        good = summary.goodput
        lines.append(
            f"goodput: {good.per_s:.2f} requests/s, {good.requests} requests, {good.share:.1%}"
        )
    if summary.finish_reasons:
        reasons = (f"{name} {count}" for name, count in summary.finish_reasons.items())
        lines.append(f"finish reasons: {', '.join(reasons)}")
    return lines


def _tokens(tokens: Tokens) -> str:
    return f"{tokens.per_s:.1f} tokens/s ({tokens.total})"


def _latencies(summary: LoadSummary) -> Table:
    table = _table("Latencies, ms", "", "n", "mean", "p50", "p90", "p95", "p99", "max")
    for name, found in (
        ("TTFT", summary.ttft),
        ("TPOT", summary.tpot),
        ("ITL", summary.itl),
        ("E2E", summary.e2e),
    ):
        table.add_row(name, *_row(found))
    return table


def _row(found: Distribution | None) -> list[str]:
    if found is None:
        return ["0", *["–"] * 6]
    values = (found.mean, found.p50, found.p90, found.p95, found.p99, found.max)
    return [str(found.n), *(f"{value * 1e3:.2f}" for value in values)]


def _failures(summary: LoadSummary) -> Table:
    table = _table("Failed requests", "kind", "count", "the first one")
    table.columns[2].justify = "left"
    for kind, found in summary.failures.items():
        table.add_row(kind, str(found.count), found.example)
    return table


def _generator(summary: LoadSummary) -> list[str]:
    late = summary.generator
    found = (
        ("generator lag", late.schedule),
        ("generator's event loop lag", late.event_loop),
        ("wait for a slot (--max-in-flight)", late.slot_wait),
    )
    lags = [
        f"{name}: p50 {_ms(each.p50)}, p99 {_ms(each.p99)}, max {_ms(each.max)}"
        for name, each in found
        if each is not None
    ]
    return [*lags, f"generator's CPU: {late.cpu_share:.0%} of a core"]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left")
    return table
