from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from rbalance.simulator.arrivals import at_rate, gamma, poisson, read_trace, stepped

DATA = Path(__file__).resolve().parents[5] / "shared" / "data"


def test_poisson_arrivals_come_at_their_rate() -> None:
    arrivals = poisson(4.0, 4000, seed=1)
    gaps = np.diff(arrivals, prepend=0.0)
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(0.25, rel=0.05)
    assert gaps.std() == pytest.approx(0.25, rel=0.1)
    assert (arrivals == poisson(4.0, 4000, seed=1)).all()
    assert (arrivals != poisson(4.0, 4000, seed=2)).any()


def test_gamma_arrivals_come_in_bursts_at_the_same_rate() -> None:
    gaps = np.diff(gamma(4.0, 20_000, seed=1, burstiness=4.0), prepend=0.0)
    assert gaps.mean() == pytest.approx(0.25, rel=0.05)
    assert (gaps.std() / gaps.mean()) ** 2 == pytest.approx(4.0, rel=0.1)


def test_a_step_of_load_changes_the_rate_where_it_says() -> None:
    arrivals = stepped([(5.0, 200.0), (20.0, 100.0)], seed=3)
    assert (np.diff(arrivals) >= 0).all()
    before = (arrivals < 200).sum()
    assert before == pytest.approx(1000, rel=0.15)
    assert len(arrivals) - before == pytest.approx(2000, rel=0.15)


def test_a_pattern_is_stretched_to_a_rate() -> None:
    assert at_rate(np.array([0.0, 1.0, 1.0, 4.0]), rate=2.0).tolist() == [0.0, 0.5, 0.5, 2.0]
    assert at_rate(np.array([0.0, 0.0]), rate=2.0).tolist() == [0.0, 0.0]
    assert at_rate(np.array([]), rate=2.0).tolist() == []


def test_azure_s_format(tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
        "2023-11-16 18:17:04.4799600,3180,8\n2023-11-16 18:17:05,110,27\n"
    )
    trace = read_trace(file, 10)
    assert trace.at == pytest.approx([0.0, 0.5, 1.02004])
    assert trace.prompt_tokens.tolist() == [4808, 3180, 110]
    assert trace.output_tokens.tolist() == [10, 8, 27]
    assert read_trace(file, 2).at == pytest.approx([0.0, 0.5])


def test_azure_s_format_of_2024(tmp_path: Path) -> None:
    """Its times name their offset; those of 2023 don't, and are UTC too."""
    file = tmp_path / "azure.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 00:00:00.017335+00:00,2399,6\n2024-05-10 00:00:01+00:00,76,15\n"
        "2024-05-10 02:00:02+02:00,1,1\n2024-05-10 00:00:03.0099300,2,2\n"
    )
    trace = read_trace(file, 10)
    assert trace.at == pytest.approx([0.0, 0.007405, 0.99007, 1.99007, 3.0], abs=1e-6)
    assert trace.prompt_tokens.tolist() == [2162, 2399, 76, 1, 2]


def test_mooncake_s_format(tmp_path: Path) -> None:
    file = tmp_path / "mooncake.jsonl.gz"
    with gzip.open(file, "wt") as out:
        out.write('{"timestamp": 3000, "input_length": 1}\n{"timestamp": 4500}\n')
    trace = read_trace(file, 10)
    assert trace.at.tolist() == [0.0, 1.5]
    np.testing.assert_array_equal(trace.prompt_tokens, [1.0, np.nan])
    assert np.isnan(trace.output_tokens).all()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_another_format_is_refused_by_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("when,what\n1,2\n")
    with pytest.raises(ValueError, match=f"{name}.*neither Azure's trace"):
        read_trace(file, 3)


def test_blank_lines_and_a_byte_order_mark_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"timestamp": 1000}\r\n\r\n \n{"timestamp": 3000}\n\n')
    assert read_trace(file, 10).at.tolist() == [0.0, 2.0]
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xef\xbb\xbfTIMESTAMP\n\n2023-11-16 18:17:03\n  \n2023-11-16 18:17:05\n")
    assert read_trace(file, 10).at.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.jsonl", "[1,2]"),
        ("a.jsonl", '{"timestamp": NaN}'),
        ("a.jsonl", '{"timestamp": -1}'),
        ("a.jsonl", '{"timestamp": null}'),
        ("a.jsonl", '{"timestamp": 1, "input_length": 1e999}'),
        ("a.jsonl", '{"timestamp": 1, "input_length": 1' + "0" * 400 + "}"),
        ("a.jsonl", '{"timestamp": 1, "output_length": -3}'),
        ("a.jsonl", '{"timestamp": ' + "[" * 100_000),
        ("a.jsonl", '{"timestamp": "\udcff"}'),  # no UTF-8
        ("a.csv", "2023-11-16 18:17:03,inf,1"),
        ("a.csv", "2023-11-16 18:17:03,nan,1"),
        ("a.csv", "x" * 140_000 + ",1,1"),
        ("a.csv", "9999-99-99,1,1"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, name: str, line: str) -> None:
    first = {
        "a.jsonl": '{"timestamp": 0, "input_length": 1, "output_length": 1}',
        "a.csv": "TIMESTAMP,ContextTokens,GeneratedTokens",
    }[name]
    file = tmp_path / name
    file.write_text(f"{first}\n\n{line}\n", "utf-8", "surrogateescape")
    with pytest.raises(ValueError, match=f"{name}, line 3: "):
        read_trace(file, 10)


@pytest.mark.parametrize(
    "name", ["AzureLLMInferenceTrace_conv.csv.gz", "mooncake_conversation_trace.jsonl.gz"]
)
def test_the_public_traces_are_read(name: str) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared/data/{name} does not lie beside this checkout")
    trace = read_trace(path, 500)
    assert len(trace.at) == 500
    assert trace.at[0] == 0
    assert (np.diff(trace.at) >= 0).all()
    assert trace.prompt_tokens.min() > 0
    assert trace.output_tokens.min() > 0
