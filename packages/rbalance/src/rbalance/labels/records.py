"""Labelled prompts: what several models answered to the same prompt, how well and how long.

A file is JSON lines, plain or gzip-compressed, one prompt a line:

    {"id": "crux/7", "source": "crux", "prompt": "...",
     "scores": {"small": 0.0, "large": 1.0}, "out_chars": {"small": 212, "large": 480}}

Quality and length predictors are trained on such files and balancing policies are judged by them.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from rbalance.errors import RbalanceError

if TYPE_CHECKING:
    import io
    import os
    from collections.abc import Iterable, Iterator

Score = Annotated[float, Meta(ge=0.0, le=1.0)]
Chars = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]

_GZIP_MAGIC = b"\x1f\x8b"


class LabelledPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt and what is known of each model's answer to it.

    `scores` maps a model's name to its answer's quality, from 0 to 1; there is at least one.
    `out_chars` maps a model's name to its answer's length in characters, for models that have a
    score; the sources record no token counts and no prices. Fields not named here are ignored.
    """

    id: Name
    source: Name
    prompt: str
    scores: Annotated[dict[Name, Score], Meta(min_length=1)]
    out_chars: dict[Name, Chars] = {}
    category: str | None = None


class RecordError(RbalanceError, ValueError):
    """A line that is no labelled prompt.

    `path` and `line` (from 1) say where; `field` is the offending field, `scores.large` for one
    model's entry, or None when the line as a whole cannot be read; `reason` says what is wrong.
    """

    def __init__(self, path: Path, line: int, field: str | None, reason: str) -> None:
        """Keep the parts; the message joins them."""
        self.path = path
        self.line = line
        self.field = field
        self.reason = reason
        where = f"{path}:{line}" if field is None else f"{path}:{line}: {field}"
        super().__init__(f"{where}: {reason}")


def read_records(path: str | os.PathLike[str]) -> Iterator[LabelledPrompt]:
    """Yield the prompts of a JSON-lines file in order, holding one line at a time.

    Compression is told from the file's first bytes, not its name. Blank lines are skipped.

    Raises RecordError at the first line that breaks a rule (ids are unique within a file), and
    OSError if the file can't be opened. Both come while iterating, since nothing is read before.
    """
    path = Path(path)
    decoder = msgspec.json.Decoder(LabelledPrompt)
    seen: set[str] = set()
    number = 0
    with open_file(path) as stream:
        while True:
            number += 1
            try:
                raw = stream.readline()
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise RecordError(path, number, None, f"broken gzip data: {error}") from error
            if not raw:
                return
            if raw.isspace():
                continue
            try:
                record = decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                field, reason = _explain(raw, error)
                raise RecordError(path, number, field, reason) from error
            if record.id in seen:
                raise RecordError(path, number, "id", f"{record.id!r} occurs a second time")
            seen.add(record.id)
            for model in record.out_chars:
                if model not in record.scores:
                    raise RecordError(path, number, f"out_chars.{model}", "this model has no score")
            yield record


@contextmanager
def open_file(path: Path) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    """A file's bytes, unzipped where its first two say that they are gzip's."""
    with path.open("rb") as plain:
        zipped = plain.read(2) == _GZIP_MAGIC
        plain.seek(0)
        if zipped:
            with gzip.open(plain, "rb") as unzipped:
                yield unzipped
        else:
            yield plain


_RULES: dict[str, Any] = {"scores": Score, "out_chars": Chars}


def _explain(raw: bytes, error: Exception) -> tuple[str | None, str]:
    """Name the field that `error` is about.

    msgspec writes the path of a nested value as `$.scores[...]`, without the key, so the entry is
    found by checking each against its rule.
    """
    reason = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return None, f"not JSON: {reason}"
    if missing := re.search(r"missing required field `(\w+)`", reason):
        return missing[1], "is missing"
    reason, _, where = reason.partition(" - at `")
    where = where.rstrip("`")
    if where.startswith("key"):
        return where.partition("$.")[2] or None, "an empty name"
    field = where.removeprefix("$").removeprefix(".")
    name = field.removesuffix("[...]")
    if name == field or name not in _RULES:
        return field or None, reason
    for model, value in msgspec.json.decode(raw)[name].items():
        try:
            msgspec.convert(value, _RULES[name])
        except msgspec.ValidationError as nested:
            return f"{name}.{model}", str(nested)
    return name, reason


class ModelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One model over a set of prompts.

    `prompts` counts those it has a score for and `quality` is their mean; `lengths` counts those
    with a known answer length and `out_chars` is its mean, None without any.
    """

    prompts: int
    quality: float
    lengths: int
    out_chars: float | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A set of labelled prompts in figures.

    `sources` counts prompts by source; `prompt_chars` is the prompts' mean length in characters;
    `models` is keyed by name, in alphabetical order; `oracle_quality` is the mean over prompts of
    the best score any model reached, which bounds what routing between them can gain.
    """

    prompts: int
    sources: dict[str, int]
    prompt_chars: float
    models: dict[str, ModelSummary]
    oracle_quality: float

    @property
    def complete_models(self) -> tuple[str, ...]:
        """The models that have a score for every prompt: those a comparison may use."""
        return tuple(name for name, model in self.models.items() if model.prompts == self.prompts)


def summarise(records: Iterable[LabelledPrompt]) -> Summary:
    """Summarise prompts in one pass, without keeping them.

    Raises ValueError if there is none, for then every mean is undefined.
    """
    prompts = 0
    prompt_chars = 0
    oracle = 0.0
    sources: Counter[str] = Counter()
    scored: Counter[str] = Counter()
    measured: Counter[str] = Counter()
    chars: Counter[str] = Counter()
    quality: dict[str, float] = {}
    for record in records:
        prompts += 1
        prompt_chars += len(record.prompt)
        oracle += max(record.scores.values())
        sources[record.source] += 1
        for name, score in record.scores.items():
            scored[name] += 1
            quality[name] = quality.get(name, 0.0) + score
        for name, length in record.out_chars.items():
            measured[name] += 1
            chars[name] += length
    if not prompts:
        raise ValueError("no labelled prompt to summarise")
    return Summary(
        prompts=prompts,
        sources=dict(sorted(sources.items())),
        prompt_chars=prompt_chars / prompts,
        models={
            name: ModelSummary(
                prompts=count,
                quality=quality[name] / count,
                lengths=measured[name],
                out_chars=chars[name] / measured[name] if measured[name] else None,
            )
            for name, count in sorted(scored.items())
        },
        oracle_quality=oracle / prompts,
    )
