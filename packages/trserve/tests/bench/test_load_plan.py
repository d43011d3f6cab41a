"""Arrivals of each shape, and flags that don't go together."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from trsched.errors import ConfigError
from trserve.bench.plan.load_plan import ClosedLoad, LoadOptions, OpenLoad, plan_load

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:05.9799600,110,0
"""
MOONCAKE = "\n".join(
    json.dumps({"timestamp": ms, "input_length": read, "output_length": written, "hash_ids": [1]})
    for ms, read, written in ((3000, 6758, 500), (3000, 7322, 490), (9000, 12, 3))
)


def arrivals(**options: object) -> OpenLoad:
    load = plan_load(LoadOptions(**options))  # type: ignore[arg-type]
    assert isinstance(load, OpenLoad)
    return load


def test_a_rate_and_a_number() -> None:
    load = arrivals(rate=50, requests=5000, seed=3)
    assert len(load.at) == 5000
    assert (np.diff(load.at) >= 0).all()
    assert load.rate == pytest.approx(50, rel=0.05)
    gaps = np.diff(load.at)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.05)
    np.testing.assert_array_equal(load.at, arrivals(rate=50, requests=5000, seed=3).at)
    assert (load.at != arrivals(rate=50, requests=5000, seed=4).at).any()


def test_burstiness_is_the_squared_coefficient_of_variation() -> None:
    gaps = np.diff(arrivals(rate=50, requests=20_000, burstiness=4, seed=1).at)
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.05)
    assert (gaps.std() / gaps.mean()) ** 2 == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("burstiness", [None, 4.0])
def test_a_rate_and_a_duration(burstiness: float | None) -> None:
    """The same arrivals, cut off where time ends."""
    long = arrivals(rate=20, requests=3000, burstiness=burstiness).at
    load = arrivals(rate=20, duration=30.0, burstiness=burstiness)
    np.testing.assert_array_equal(load.at, long[long < 30])
    assert len(arrivals(rate=20, duration=30.0, requests=7, burstiness=burstiness).at) == 7
    assert len(arrivals(rate=20, burstiness=burstiness).at) == 100


def test_a_burst() -> None:
    load = arrivals(burst=9, max_in_flight=4)
    assert load.at.tolist() == [0.0] * 9
    assert (load.rate, load.max_in_flight) == (None, 4)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "at", "read", "written"),
    [
        ("azure.csv", AZURE, [0, 0.052, 2], [4808, 3180, 110], [10, 8, 0]),
        ("moon.jsonl", MOONCAKE, [0, 0, 6], [6758, 7322, 12], [500, 490, 3]),
    ],
)
def test_traces(
    tmp_path: Path,
    zipped: bool,
    name: str,
    text: str,
    at: list[float],
    read: list[int],
    written: list[int],
) -> None:
    path = tmp_path / (name + ".gz" * zipped)
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    load = arrivals(trace=path)
    assert load.at == pytest.approx(at)
    assert load.input_tokens is not None
    assert load.output_tokens is not None
    assert (load.input_tokens.tolist(), load.output_tokens.tolist()) == (read, written)
    assert arrivals(trace=path, speed=2.0).at == pytest.approx([each / 2 for each in at])
    assert arrivals(trace=path, speed=2.0, duration=1.0).at == pytest.approx(
        [each / 2 for each in at if each / 2 < 1]
    )
    assert len(arrivals(trace=path, requests=2).at) == 2


def test_clients() -> None:
    assert plan_load(LoadOptions(clients=3)) == ClosedLoad(3, 100, None)
    assert plan_load(LoadOptions(clients=3, requests=5)) == ClosedLoad(3, 5, None)
    assert plan_load(LoadOptions(clients=3, duration=9.0)) == ClosedLoad(3, None, 9.0)


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [
        ({}, "--rate", "say how to load"),
        ({"rate": 1, "clients": 2}, "--clients", "one shape"),
        ({"rate": 1, "burst": 2}, "--burst", "one shape"),
        ({"clients": 1, "burstiness": 2.0}, "--burstiness", "goes with --rate"),
        ({"rate": 1, "speed": 2.0}, "--speed", "goes with --trace"),
        ({"clients": 1, "max_in_flight": 2}, "--max-in-flight", "clients"),
        ({"burst": 1, "requests": 2}, "--requests", "--burst says"),
        ({"burst": 1, "duration": 2.0}, "--duration", "--burst says"),
        ({"rate": 0.0}, "--rate", "above 0"),
        ({"rate": float("inf")}, "--rate", "above 0"),
        ({"rate": float("nan")}, "--rate", "above 0"),
        ({"rate": 1, "burstiness": 0.0}, "--burstiness", "above 0"),
        ({"rate": 1, "duration": -1.0}, "--duration", "above 0"),
        ({"rate": 1e-9, "duration": 1.0}, "--duration", "no request arrives"),
        ({"rate": 1e9, "duration": 1.0}, "--duration", "more than 10000000"),
        ({"rate": 10, "requests": 10**14}, "--requests", "at most 10000000"),
        ({"burst": 10**14}, "--burst", "at most 10000000"),
        ({"clients": 10**14}, "--clients", "at most 10000000"),
    ],
)
def test_flags_that_are_wrong(options: dict[str, object], field: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as found:
        arrivals(**options)
    assert found.value.field == field


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "No such file"),
        ("a.csv", b"", "has no requests"),
        ("a.csv", b"a,b\n1,2\n", "neither"),
        ("a.jsonl", b"what\n", "neither"),
        ("a.jsonl", b"\xff\n", "neither|decode"),
        ("a.jsonl.gz", b"no gzip", "gzip"),
        ("a.jsonl.gz", gzip.compress(MOONCAKE.encode())[:40], "end"),
    ],
)
def test_traces_that_are_none(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as found:
        arrivals(trace=path)
    assert found.value.field == "--trace"
