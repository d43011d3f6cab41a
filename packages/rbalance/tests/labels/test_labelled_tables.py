"""rbalance.labels.tables: RouterBench's and RouteLLM's layouts, and lines that are neither."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from rbalance import RecordError
from rbalance.labels.tables import read_labelled

BENCH = [
    [
        *("sample_id", "prompt", "eval_name"),
        *("a/x", "b", "a/x|model_response", "b|model_response", "a/x|total_cost", "b|total_cost"),
        "oracle_model_to_route_to",
    ],
    ["mmlu.1", 'Say\n"hi"', "mmlu", "1.0", "0.25", "hello", "", "0.1", "0.2", "a/x"],
    ["mmlu.2", "Why?", "mmlu", "", "0.0", "", "because", "0.1", "0.2", "no_model_correct"],
]
LLM = [
    ["prompt", "weak", "strong", "weak_response", "strong_response"],
    ["1 + 1", "True", "False", "2", "three"],
]


def table(path: Path, rows: list[list[str]]) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["bench.csv", "bench.csv.gz"])
def test_router_bench(tmp_path: Path, name: str) -> None:
    first, second = read_labelled(table(tmp_path / name, BENCH))
    assert (first.id, first.source, first.prompt) == ("mmlu.1", "mmlu", 'Say\n"hi"')
    assert (first.scores, first.out_chars) == ({"a/x": 1.0, "b": 0.25}, {"a/x": 5, "b": 0})
    assert (second.scores, second.out_chars) == ({"b": 0.0}, {"b": 7})


def test_route_llm_with_and_without_answers(tmp_path: Path) -> None:
    (found,) = read_labelled(table(tmp_path / "gsm8k.csv", LLM))
    assert (found.id, found.source, found.prompt) == ("gsm8k.csv/0", "gsm8k.csv", "1 + 1")
    assert (found.scores, found.out_chars) == ({"weak": 1, "strong": 0}, {"weak": 1, "strong": 5})

    (found,) = read_labelled(table(tmp_path / "mmlu.csv", [row[:3] for row in LLM]))
    assert (found.scores, found.out_chars) == ({"weak": 1, "strong": 0}, {})


def test_all_else_is_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"id": "1", "source": "s", "prompt": "p", "scores": {"m": 1}}))
    assert [record.id for record in read_labelled(path)] == ["1"]


@pytest.mark.parametrize(
    ("rows", "line", "field", "reason"),
    [
        ([["question", "weak"]], 1, "prompt", "no such column"),
        ([["prompt", "weak_response"]], 1, None, "no column has a model's scores"),
        ([["prompt", "weak"], ["p", "yes"]], 2, "weak", "'yes' is no score from 0 to 1"),
        ([["prompt", "weak"], ["p", "1.5"]], 2, "weak", "no score"),
        ([["prompt", "weak"], ["p", "inf"]], 2, "weak", "no score"),
        ([["prompt", "weak"], ["p", "nan"]], 2, None, "no model has a score"),
        ([["prompt", "weak"], ["p", "1"], ["p"]], 3, None, "not 2 cells"),
        ([["prompt", "weak"], ["p", "1", "2"]], 2, None, "not 2 cells"),
        ([], 1, "prompt", "no such column"),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, rows: list[list[str]], line: int, field: str | None, reason: str
) -> None:
    path = table(tmp_path / "bad.csv", rows)
    with pytest.raises(RecordError, match=reason) as caught:
        list(read_labelled(path))
    assert (caught.value.path, caught.value.line, caught.value.field) == (path, line, field)


@pytest.mark.parametrize("data", [b"prompt,weak\n\xff\xfe,1\n", b'prompt,weak\n"open,1\n'])
def test_what_is_no_csv_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(data)
    with pytest.raises(RecordError, match="not CSV"):
        list(read_labelled(path))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_labelled(tmp_path / "absent.csv"))
