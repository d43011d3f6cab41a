"""rbalance.labels.records: reading, every kind of bad line, and the summary's figures."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rbalance import LabelledPrompt, RecordError, read_records, summarise

if TYPE_CHECKING:
    from pathlib import Path

GOOD: dict[str, Any] = {
    "id": "toy/1",
    "source": "toy",
    "prompt": "What is 2 + 2?",
    "scores": {"small": 0.0, "large": 1.0},
    "out_chars": {"small": 12, "large": 30},
}


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.parametrize("compress", [False, True])
def test_reads_plain_and_compressed_files_whatever_they_are_called(
    tmp_path: Path, compress: bool
) -> None:
    second = {"id": "toy/2", "source": "toy", "prompt": "ü", "scores": {"small": 0.5}, "more": 1}
    data = lines(GOOD) + b"\n" + lines(second).rstrip()
    path = tmp_path / "records"
    path.write_bytes(gzip.compress(data) if compress else data)

    first, last = read_records(path)

    assert first.scores == {"small": 0.0, "large": 1.0}
    assert first.out_chars == {"small": 12, "large": 30}
    assert (last.id, last.prompt, last.out_chars, last.category) == ("toy/2", "ü", {}, None)


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert list(read_records(path)) == []


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(read_records(tmp_path / "absent.jsonl"))


def test_records_do_not_change() -> None:
    record = msgspec.convert(GOOD, LabelledPrompt)
    with pytest.raises(AttributeError):
        record.prompt = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"prompt": None}, "prompt", "Expected `str`, got `null`"),
        ({"id": ""}, "id", "length >= 1"),
        ({"id": 7}, "id", "Expected `str`, got `int`"),
        ({"scores": {}}, "scores", "length >= 1"),
        ({"scores": [1.0]}, "scores", "Expected `object`, got `array`"),
        ({"scores": {"small": 0.0, "large": "1"}}, "scores.large", "Expected `float`, got `str`"),
        ({"scores": {"small": 0.0, "large": 1.5}}, "scores.large", "<= 1.0"),
        ({"scores": {"": 0.0}}, "scores", "an empty name"),
        ({"out_chars": {"small": -1}}, "out_chars.small", ">= 0"),
        ({"out_chars": {"small": 1.5}}, "out_chars.small", "Expected `int`, got `float`"),
        ({"out_chars": {"other": 1}}, "out_chars.other", "no score"),
        ({"id": "toy/0"}, "id", "second time"),
        ({"category": 3}, "category", "Expected `str | null`, got `int`"),
    ],
)
def test_a_bad_field_is_named_with_its_file_and_line(
    tmp_path: Path, change: dict[str, Any], field: str, reason: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(lines({**GOOD, "id": "toy/0"}) + b"\n" + lines({**GOOD, **change}))
    records = read_records(path)
    assert next(records).id == "toy/0"

    with pytest.raises(RecordError) as caught:
        next(records)

    assert (caught.value.path, caught.value.line, caught.value.field) == (path, 3, field)
    assert reason in caught.value.reason
    assert str(caught.value) == f"{path}:3: {field}: {caught.value.reason}"


@pytest.mark.parametrize("field", ["id", "source", "prompt", "scores"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(lines({name: value for name, value in GOOD.items() if name != field}))
    with pytest.raises(RecordError, match="is missing") as caught:
        next(read_records(path))
    assert caught.value.field == field


@pytest.mark.parametrize("line", [b'{"id": ', b"[1]", b'"text"', b"\xff\xfe", b'{"id": "\xff"}'])
def test_a_line_that_is_no_object_has_no_field(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(line)
    with pytest.raises(RecordError) as caught:
        next(read_records(path))
    assert (caught.value.line, caught.value.field) == (1, None)


def test_a_truncated_archive_is_reported_where_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    whole = gzip.compress(lines(*({**GOOD, "id": f"toy/{i}"} for i in range(50))))
    path.write_bytes(whole[: len(whole) - 12])
    with pytest.raises(RecordError, match="broken gzip data") as caught:
        list(read_records(path))
    assert caught.value.line > 1


def test_the_summary_counts_what_is_there() -> None:
    records = [
        msgspec.convert(fields, LabelledPrompt)
        for fields in (
            GOOD,
            {"id": "b/1", "source": "b", "prompt": "xx", "scores": {"small": 1.0, "mid": 0.25}},
            {"id": "b/2", "source": "b", "prompt": "", "scores": {"small": 0.5}},
        )
    ]
    summary = summarise(iter(records))
    assert (summary.prompts, summary.sources) == (3, {"b": 2, "toy": 1})
    assert summary.prompt_chars == pytest.approx((14 + 2) / 3)
    assert summary.oracle_quality == pytest.approx((1.0 + 1.0 + 0.5) / 3)
    assert list(summary.models) == ["large", "mid", "small"]
    assert summary.models["small"].quality == pytest.approx(0.5)
    assert (summary.models["small"].prompts, summary.models["small"].lengths) == (3, 1)
    assert summary.models["large"].out_chars == pytest.approx(30)
    assert summary.models["mid"].out_chars is None
    assert summary.complete_models == ("small",)


def test_nothing_cannot_be_summarised() -> None:
    with pytest.raises(ValueError, match="no labelled prompt"):
        summarise([])
