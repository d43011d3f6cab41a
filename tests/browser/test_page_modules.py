"""The page's modules that compute, each against another way to the same result."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rbalance.policies.weights import PRESETS

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    Run = Callable[..., Any]


@pytest.fixture(scope="module")
def run(browser: Browser, profile_url: str) -> Run:
    """Run a function of one argument on the page; `load(name)` there is a module of it."""
    page = browser.new_page()
    page.goto(profile_url)

    def run(function: str, argument: Any = None) -> Any:
        load = "const load = name => import(`/playground/${name}.js`);"
        return page.evaluate(
            f"async argument => {{ {load} return await ({function})(argument); }}", argument
        )

    return run


READ_EVENTS = """async pieces => {
  const { eventData } = await load("sse");
  const results = [];
  for (const parts of pieces) {
    const body = new ReadableStream({ start(controller) {
      for (const part of parts) controller.enqueue(new Uint8Array(part));
      controller.close();
    } });
    const data = [];
    for await (const event of eventData(body)) data.push(event);
    results.push(data);
  }
  return results;
}"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_however_they_are_cut(run: Run, end: str) -> None:
    lines = [": a comment", "data: é😀", "", "event: x", "data:1", "data: 2", "", "", "data: lost"]
    stream = (end.join(lines) + end).encode()
    pieces = [[list(stream[:at]), list(stream[at:])] for at in range(len(stream) + 1)]
    pieces.append([[byte] for byte in stream])
    assert run(READ_EVENTS, pieces) == [["é😀", "1\n2"]] * len(pieces)


def test_metrics_as_prometheus_own_parser_reads_them(run: Run) -> None:
    registry = CollectorRegistry()
    odd = 'a"b\\c\nd}e,f="g"'
    Counter("a_thing", "Help with {braces}", ["name", "b"], registry=registry).labels(odd, "").inc(
        3
    )
    Gauge("inf", "text", registry=registry).set(float("inf"))
    Gauge("small", "text", registry=registry).set(1.5e-9)
    Histogram("h", "text", ["le2"], registry=registry).labels("x").observe(0.3)
    text = generate_latest(registry).decode()
    expected: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            pair = [dict(sample.labels), str(sample.value)]
            expected.setdefault(sample.name, []).append(pair)
    got = run(
        """async text => {
          const { parseMetrics } = await load("prometheus_text");
          return [...parseMetrics(text)].map(([name, samples]) =>
            [name, samples.map(({ labels, value }) => [labels, String(value)])]);
        }""",
        text,
    )
    number = {"Infinity": "inf"}
    read = {
        name: [[labels, str(float(number.get(value, value)))] for labels, value in samples]
        for name, samples in got
    }
    assert read == expected


def quantile(bounds: list[float], counts: list[int], share: float) -> float | None:
    """By walking through the observations, each bucket's spread evenly over it."""
    total = sum(counts)
    if not total:
        return None
    rank, lower = share * total, 0.0
    for bound, count in zip([*bounds, float("inf")], counts, strict=True):
        if count and rank <= count:
            return lower if bound == float("inf") else lower + (bound - lower) * rank / count
        rank, lower = rank - count, bound
    return bounds[-1]


def test_percentiles(run: Run) -> None:
    chance = random.Random(7)
    bounds = [0.005, 0.01, 0.1, 1.0, 10.0]
    cases = []
    for _ in range(200):
        counts = [chance.choice([0, 0, 1, 3, 40]) for _ in range(6)]
        cases.append((counts, chance.choice([0.5, 0.9, 0.99])))
    names = [*map(str, bounds), "+Inf"]
    given = []
    for counts, share in cases:
        entries = list(zip(names, itertools.accumulate(counts), strict=True))
        chance.shuffle(entries)
        given.append((entries, share))
    got = run(
        """async cases => {
          const { buckets, percentile } = await load("percentiles");
          return cases.map(([entries, share]) => percentile(buckets(new Map(entries)), share));
        }""",
        given,
    )
    for value, (counts, share) in zip(got, cases, strict=True):
        assert value == pytest.approx(quantile(bounds, counts, share))


def test_weights_always_sum_to_one(run: Run) -> None:
    chance = random.Random(3)
    moves = [(chance.choice(["quality", "cost", "latency"]), chance.random()) for _ in range(300)]
    moves += [("cost", 1.0), ("quality", 0.2), ("latency", 1.0), ("latency", 0.0)]
    got = run(
        """async moves => {
          const { moved, PRESETS } = await load("weights");
          let weights = PRESETS.balanced;
          return moves.map(([goal, share]) => (weights = moved(weights, goal, share)));
        }""",
        moves,
    )
    for weights, (goal, share) in zip(got, moves, strict=True):
        assert weights[goal] == share
        assert sum(weights.values()) == pytest.approx(1, abs=1e-9)
        assert min(weights.values()) >= 0
    assert got[-3] == {"quality": 0.2, "cost": pytest.approx(0.8), "latency": pytest.approx(0)}


def test_presets_are_the_balancers(run: Run) -> None:
    got = run("async () => (await load('weights')).PRESETS")
    assert set(got) == set(PRESETS)
    for name, weights in PRESETS.items():
        assert list(weights) == [got[name][goal] for goal in ("quality", "cost", "latency")]


def test_common_subsequence(run: Run) -> None:
    chance = random.Random(5)
    pairs = [
        ["".join(chance.choices("abc", k=chance.randint(0, 8))) for _ in range(2)]
        for _ in range(100)
    ]
    got = run(
        """async pairs => {
          const { commonSubsequence } = await load("similarity");
          return pairs.map(([a, b]) => commonSubsequence([...a], [...b]));
        }""",
        pairs,
    )

    def parts(text: str) -> set[str]:
        picks = itertools.product((False, True), repeat=len(text))
        return {"".join(itertools.compress(text, pick)) for pick in picks}

    for length, (a, b) in zip(got, pairs, strict=True):
        assert length == max(map(len, parts(a) & parts(b)))


def test_rates_survive_a_restart_of_the_server(run: Run) -> None:
    counts = [(0, 10.0), (1, 14.0), (2, 14.0), (3, 3.0), (70, 5.0)]
    pages = [
        [at, f'n_total{{to="a"}} {value}\n' + 'n_total{to="b"} 1\n' * (at > 0)]
        for at, value in counts
    ]
    got = run(
        """async pages => {
          const { MetricsHistory } = await load("metrics_history");
          const { parseMetrics } = await load("prometheus_text");
          const history = new MetricsHistory(60);
          const results = [];
          for (const [at, text] of pages) {
            history.push(parseMetrics(text), at);
            results.push([[...history.rate("n_total", ({ to }) => to)],
                          [...history.increase("n_total", ({ to }) => to)]]);
          }
          return results;
        }""",
        pages,
    )
    rates: list[dict[str, list[list[float]]]] = [dict(rates) for rates, _ in got]
    increases: list[dict[str, float]] = [dict(increase) for _, increase in got]
    assert rates[0] == {}
    assert rates[3]["a"] == [[1, 4], [2, 0], [3, 3]]  # 3 after 14: it began anew
    assert rates[3]["b"][0] == [1, 1]
    assert [each["a"] for each in increases] == [0, 4, 4, 3, 0]  # the first pages are too old


def test_ticks(run: Run) -> None:
    tops = [0, 0.0003, 0.07, 0.5, 1, 1.0001, 3, 9.99, 10, 42, 1234, 99999]
    got = run(
        "async tops => { const { niceTicks } = await load('chart_axes');"
        " return tops.map((top) => [niceTicks(top), niceTicks(top, true)]); }",
        tops,
    )
    for top, lists in zip(tops, got, strict=True):
        for ticks in lists:
            assert ticks[0] == 0
            assert ticks[-1] >= top * (1 - 1e-9)
            assert 3 <= len(ticks) <= 6
            steps = {round(b - a, 9) for a, b in itertools.pairwise(ticks)}
            assert len(steps) == 1
        assert all(float(tick).is_integer() for tick in lists[1])


def test_texts_of_several_tokens(run: Run) -> None:
    euro = list("€".encode())
    cases: list[list[Any]] = [
        ["a", [0], None, ["a"]],
        ["ab", [0, 1], [[97], [98]], ["a", "b"]],
        ["€", [0, 1], [euro[:1], euro[1:]], ["", "€"]],
        ["ab", [0, 1], None, ["", "ab"]],
        ["b", [0, 1], [[97], [98]], ["", "b"]],  # held back before, so that bytes don't add up
    ]
    got = run(
        """async cases => {
          const { tokenTexts } = await load("token_texts");
          return cases.map(([text, models, bytes]) =>
            tokenTexts(text, models, bytes?.map((each) => ({ bytes: each }))));
        }""",
        [case[:3] for case in cases],
    )
    assert got == [case[3] for case in cases]
