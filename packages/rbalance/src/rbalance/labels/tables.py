"""Public tables of labelled prompts (CSV), read as the records of rbalance.labels.records.

Two layouts, told apart by their columns:

* RouterBench: `sample_id`, `prompt`, `eval_name`, and for each model its score in a column of its
  name, its answer in `MODEL|model_response` and `MODEL|total_cost` (not used);
* RouteLLM: `prompt`, and for each model its score in a column of its name and, in some tables, its
  answer in `MODEL_response`.

A score is a number from 0 to 1, or True or False; an empty cell is no score. Answers give lengths.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rbalance.labels.records import LabelledPrompt, RecordError, open_file, read_records

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

_BENCH = "|model_response"
_BENCH_COST = "|total_cost"
_LLM = "_response"
_FACTS = ("sample_id", "prompt", "eval_name", "oracle_model_to_route_to")
_LONGEST_CELL = 2**24
_WORDS = {"true": 1.0, "false": 0.0, "": math.nan, "nan": math.nan}


def read_labelled(path: str | os.PathLike[str]) -> Iterator[LabelledPrompt]:
    """Yield a file's prompts: `.csv` or `.csv.gz` is one of the tables, all else JSON lines.

    Raises RecordError at the first line that breaks a rule, OSError if it can't be opened.
    """
    path = Path(path)
    if path.name.lower().removesuffix(".gz").endswith(".csv"):
        yield from _read_table(path)
    else:
        yield from read_records(path)


def _read_table(path: Path) -> Iterator[LabelledPrompt]:
    with open_file(path) as raw, io.TextIOWrapper(raw, "utf-8", newline="") as text:
        yield from _rows(path, text)


def _rows(path: Path, text: TextIO) -> Iterator[LabelledPrompt]:
    csv.field_size_limit(_LONGEST_CELL)
    table = csv.DictReader(text, strict=True)
    try:
        columns = table.fieldnames or []
        answers = _answers(path, columns)
        for number, row in enumerate(table):
            if None in row or None in row.values():
                raise RecordError(path, table.line_num, None, f"not {len(columns)} cells")
            yield _record(path, table.line_num, number, row, answers)
    except (csv.Error, UnicodeDecodeError, EOFError) as error:
        raise RecordError(path, table.line_num + 1, None, f"not CSV: {error}") from error


def _answers(path: Path, columns: Sequence[str]) -> dict[str, str | None]:
    """The column of each model's answers, by model; None where the table has no answers."""
    if "prompt" not in columns:
        raise RecordError(path, 1, "prompt", "there is no such column")
    suffix = _BENCH if any(name.endswith(_BENCH) for name in columns) else _LLM
    models = [
        name for name in columns if name not in _FACTS and not name.endswith((suffix, _BENCH_COST))
    ]
    if suffix == _BENCH:  # other columns without answers are facts
        models = [name for name in models if name + suffix in columns]
    if not models:
        raise RecordError(path, 1, None, "no column has a model's scores")
    return {name: name + suffix if name + suffix in columns else None for name in models}


def _record(
    path: Path,
    line: int,
    number: int,
    row: Mapping[str, str],
    answers: Mapping[str, str | None],
) -> LabelledPrompt:
    scores = {}
    for model in answers:
        score = _score(row[model])
        if score is None:
            raise RecordError(path, line, model, f"{row[model][:40]!r} is no score from 0 to 1")
        if not math.isnan(score):
            scores[model] = score
    if not scores:
        raise RecordError(path, line, None, "no model has a score")
    lengths = {
        model: len(row[column])
        for model, column in answers.items()
        if column is not None and model in scores
    }
    return LabelledPrompt(
        id=row.get("sample_id") or f"{path.name}/{number}",
        source=row.get("eval_name") or path.name,
        prompt=row["prompt"],
        scores=scores,
        out_chars=lengths,
    )


def _score(cell: str) -> float | None:
    """The number; NaN for an empty cell, None for what is no score."""
    word = cell.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        score = float(word)
    except ValueError:
        return None
    return score if 0.0 <= score <= 1.0 else None
