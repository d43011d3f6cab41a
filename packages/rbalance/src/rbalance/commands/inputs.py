"""What the commands take as text: files of labelled prompts, ratios, prices, the embedder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rbalance.errors import ConfigError
from rbalance.labels.tables import read_labelled
from rbalance.labels.training_set import CHARS_PER_TOKEN
from rbalance.predict.sentence_embedder import MODEL, Precision, SentenceEmbedder

if TYPE_CHECKING:
    from rbalance.labels.records import LabelledPrompt
    from rbalance.predict.evaluation import Price


def labelled_prompts(files: Iterable[Path]) -> list[LabelledPrompt]:
    """Those of all files, one after another. Raises RecordError, OSError."""
    return [record for file in files for record in read_labelled(file)]


def ratios(given: Sequence[str]) -> float | dict[str, float]:
    """`4.2`, or `MODEL=4.2` several times. Raises ConfigError."""
    by_model = {}
    for text in given:
        model, equals, number = text.rpartition("=")
        ratio = _number(number, "--chars-per-token", text)
        if not equals:
            if len(given) > 1:
                raise ConfigError("--chars-per-token", "give one ratio, or one for each MODEL=")
            return ratio
        by_model[model] = ratio
    return by_model or CHARS_PER_TOKEN


def prices(given: Sequence[str]) -> dict[str, Price]:
    """`MODEL=IN/OUT` several times, USD per million tokens. Raises ConfigError."""
    found = {}
    for text in given:
        model, equals, pair = text.rpartition("=")
        read, slash, written = pair.partition("/")
        if not equals or not slash:
            raise ConfigError("--price", f"{text!r} is not MODEL=IN/OUT")
        found[model] = (_number(read, "--price", text), _number(written, "--price", text))
    return found


def names(given: str | None) -> list[str] | None:
    """`A,B`. Raises ConfigError for none."""
    if given is None:
        return None
    found = [name.strip() for name in given.split(",") if name.strip()]
    if not found:
        raise ConfigError("--models", "names no model")
    return found


def open_embedder(model: str | None, precision: str) -> SentenceEmbedder:
    """Load it. Raises ConfigError, MissingExtraError."""
    for known in get_args(Precision):
        if precision == known:
            return SentenceEmbedder(model or MODEL, known)
    raise ConfigError("--precision", f"{precision!r} is not {' or '.join(get_args(Precision))}")


def _number(text: str, field: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        raise ConfigError(field, f"{whole!r} has no number of 0 or more")
    return number
