from __future__ import annotations

import gzip
import statistics
from pathlib import Path

import pytest

from benchmarks.serving.arrivals import at_rate, poisson, trace

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def test_poisson_arrivals_come_at_their_rate() -> None:
    arrivals = poisson(4.0, 4000, seed=1)
    gaps = [after - before for before, after in zip([0.0, *arrivals], arrivals, strict=False)]
    assert min(gaps) > 0
    assert statistics.fmean(gaps) == pytest.approx(0.25, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.25, rel=0.1)
    assert arrivals == poisson(4.0, 4000, seed=1)
    assert arrivals != poisson(4.0, 4000, seed=2)


def test_a_pattern_is_stretched_to_a_rate() -> None:
    assert at_rate([0.0, 1.0, 1.0, 4.0], rate=2.0) == [0.0, 0.5, 0.5, 2.0]
    assert at_rate([0.0, 0.0], rate=2.0) == [0.0, 0.0]
    assert at_rate([], rate=2.0) == []


def test_azure_s_format(tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
        "2023-11-16 18:17:04.4799600,3180,8\n2023-11-16 18:17:05,110,27\n"
    )
    assert trace(file, 10) == pytest.approx([0.0, 0.5, 1.02004])
    assert trace(file, 2) == pytest.approx([0.0, 0.5])


def test_mooncake_s_format(tmp_path: Path) -> None:
    file = tmp_path / "mooncake.jsonl.gz"
    with gzip.open(file, "wt") as out:
        out.write('{"timestamp": 3000, "input_length": 1}\n{"timestamp": 4500}\n')
    assert trace(file, 10) == [0.0, 1.5]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_another_format_is_refused_by_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("when,what\n1,2\n")
    with pytest.raises(ValueError, match=f"{name}.*neither Azure's trace"):
        trace(file, 3)


@pytest.mark.parametrize(
    "name", ["AzureLLMInferenceTrace_conv.csv.gz", "mooncake_conversation_trace.jsonl.gz"]
)
def test_the_public_traces_are_read(name: str) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared/data/{name} does not lie beside this checkout")
    arrivals = trace(path, 500)
    assert len(arrivals) == 500
    assert arrivals[0] == 0
    assert arrivals == sorted(arrivals)
